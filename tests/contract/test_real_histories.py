"""Histories of several processes over three servers that are killed and stalled: can they be true?

On each server that this machine has. Counts are printed (`pytest -s`, or when it fails).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.store_servers import fastest_kind, is_available, store_servers
from photon.ledger.servers.local_supervisor import ServerKind
from tests.contract.registry_backends import SERVER_KINDS
from tests.contract.registry_histories import History, make_history
from tests.simulation.history import problems

pytestmark = [pytest.mark.server, pytest.mark.slow]

MANY = 100_000
FEW = 10_000  # are plenty for a registry that is wrong, if servers are killed at the right moments
HISTORIES = 30  # so many such histories, until one shows it: a fast machine has few kills in each
SEED = 7


def history(folder: Path, operations: int, kind: ServerKind, prepare: str = "", seed: int = SEED) -> History:
    if not is_available(kind):
        pytest.skip(f"there is no {kind} on this machine")
    with store_servers(kind, folder / "stores", 3) as servers:
        made = make_history(servers, folder / "clients", seed, operations, prepare=prepare)
    answers = Counter(f"{operation.kind}: {operation.answer}" for operation in made.operations)
    print(
        f"seed {seed} on {kind}: {len(made.operations)} operations, {made.server_kills} servers killed,"
        f" {made.server_stalls} stalled, {made.client_kills} clients killed; {dict(answers.most_common())}"
    )
    return made


# Ninety seconds on two cores of one's own, several times that on a busy machine.
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("kind", SERVER_KINDS)
@pytest.mark.parametrize("operations", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_a_history_under_kills_and_stalls_can_be_true(
    operations: int, kind: ServerKind, tmp_path: Path
) -> None:
    made = history(tmp_path, operations, kind)
    assert len(made.operations) >= operations
    assert made.server_kills + made.server_stalls > 0
    if operations == MANY:  # a short one may see faults of one kind only
        assert min(made.server_kills, made.server_stalls) > 0
    check_that_much_was_answered(made)
    assert problems(made.operations) == []


def check_that_much_was_answered(made: History) -> None:
    """Nothing is wrong with a history in which everybody was told "unknown", either."""
    answers = Counter(operation.answer for operation in made.operations)
    ids = {operation.id for operation in made.operations}
    assert answers["won"] >= len(ids)
    assert answers["unknown"] < len(made.operations) / 2
    assert {operation.id for operation in made.at_rest} == ids
    assert all(operation.answer != "unknown" for operation in made.at_rest)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("take_lost_answers_for_losses", "a token lost to itself"),
        ("win_with_a_majority_in_the_fast_round", "two held the id without a release between"),
    ],
)
def test_the_history_of_a_registry_that_is_broken_on_purpose_can_not_be_true(
    tmp_path: Path, broken: str, said: str
) -> None:
    prepare = f"tests.contract.broken_rounds:{broken}"
    for seed in range(SEED, SEED + HISTORIES):
        found = problems(history(tmp_path / str(seed), FEW, fastest_kind(), prepare, seed).operations)
        if any(said in problem for problem in found):
            return
    pytest.fail(f"{broken}: none of {HISTORIES} histories shows that {said}")
