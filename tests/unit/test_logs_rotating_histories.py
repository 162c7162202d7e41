"""Random histories of logs that are rotated out of sight: nothing is read twice or lost without a word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from photon.logs.tailing import tail, unseen_rotations
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.tailing.unknown_ends import Ends
from tests.unit.odd_history import OddHistory
from tests.unit.rotating_history import History, problem_of

SEEDS = 100
CHANGED_HANDS = (227, 979)  # a log changes hands while another one is missing
COPIED_BACK = (569, 1725, 2149)  # a copy goes on as the log, or lies in another folder than its rotation
MOST_SEEDS = 400  # searched until one notices that a rule is left out
FIRST_SEEDS = {"only what is in the folder was truncated": 80}  # many before it notice nothing

NOT_READ, NOT_FOUND = "what was held open is not read", "it lies on the disk and is not read"
NOT_TOLD = "lost without a word"


def test_what_is_rotated_out_of_sight_is_read_once_or_told(tmp_path: Path) -> None:
    for seed in range(SEEDS):
        print(f"again: python -m tests.unit.rotating_history --from {seed} --seeds 1")
        (tmp_path / str(seed)).mkdir()
        History(tmp_path / str(seed), seed).run()


def test_logs_whose_names_change_hands_and_copies_that_come_back_are_read_once_or_told(
    tmp_path: Path,
) -> None:
    for seed in (*range(SEEDS), *CHANGED_HANDS, *COPIED_BACK):
        print(f"again: python -m tests.unit.rotating_history --odd --from {seed} --seeds 1")
        (tmp_path / str(seed)).mkdir()
        OddHistory(tmp_path / str(seed), seed).run()


@pytest.mark.long
def test_what_is_rotated_out_of_sight_is_read_once_or_told_in_many_histories() -> None:
    for kind, end in ((History, 1_500), (OddHistory, 600)):
        problems = {seed: problem_of(seed, kind) for seed in range(SEEDS, end)}
        assert not {seed: problem for seed, problem in problems.items() if problem is not None}


def nothing(*given: object, **more: object) -> None:
    """Stand for a rule that is left out."""


def never(*given: object, **more: object) -> bool:
    return False


# The broken variants of protocol D6, D8 and D9, and what tells them. test_logs_held alone holds that a log
# that was deleted is known by all that it got: in 6,000 of these histories nothing else begins as one does.
VARIANTS: dict[str, tuple[object, str, Callable[..., object], str]] = {
    "logs are not held open": (OpenFiles, "_open", nothing, NOT_READ),
    "what lost its name is not copied": (tail, "kept_of", lambda *_: {}, NOT_READ),
    "rotations that nobody saw are not looked for": (
        unseen_rotations,
        "unseen_rotations",
        lambda *_: [],
        NOT_FOUND,
    ),
    "files that went in use are at their ends": (Ends, "went_in_use", never, NOT_TOLD),
    "files that were truncated are at their ends": (Ends, "was_copied", never, NOT_TOLD),
    "only what is in the folder was truncated": (OpenFiles, "was_truncated", never, NOT_TOLD),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_rule_that_is_left_out_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, replacement, because = VARIANTS[name]
    monkeypatch.setattr(owner, attribute, replacement)
    found = ((seed, problem_of(seed)) for seed in range(FIRST_SEEDS.get(name, 0), MOST_SEEDS))
    noticed = next(((seed, problem) for seed, problem in found if problem and because in problem), None)
    assert noticed is not None, f"none of {MOST_SEEDS} seeds notices it"
    print(f"noticed by seed {noticed[0]}: {noticed[1]}")
