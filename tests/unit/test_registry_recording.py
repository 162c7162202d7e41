"""What a client was told survives its death, and what it was not told is unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from photon.pipeline.event_key import EventKey
from photon.registry.interface import Claim, Won
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry
from tests.simulation.recording import Recorder, read_recordings

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"


def claims(token: str, *ids: str) -> list[Claim]:
    return [Claim(EventKey(event_id), token) for event_id in ids]


def test_calls_are_read_back_with_their_answers_and_holders(tmp_path: Path) -> None:
    registry = memory_registry()
    with Recorder(tmp_path / "calls") as recorder:
        assert recorder.commit(registry, claims(EAST, "a", "b")) == [Won(), Won()]
        recorder.commit(registry, claims(WEST, "a"))
        recorder.release(registry, claims(EAST, "b"))
        recorder.lookup(registry, claims("", "a", "b"))
        recorder.clear(registry, claims(EAST, "a"))
    told = [(o.kind, o.id, o.answer, o.holder) for o in read_recordings([tmp_path / "calls"])]
    assert told == [
        ("commit", "a", "won", ""),
        ("commit", "b", "won", ""),
        ("commit", "a", "lost", EAST),
        ("release", "b", "released", ""),
        ("lookup", "a", "joined", EAST),
        ("lookup", "b", "free", ""),
        ("clear", "a", "cleared", ""),
    ]
    registry.close()


class Deadly:
    """A registry on which its caller dies."""

    def commit(self, claims: Sequence[Claim]) -> list[object]:
        raise KeyboardInterrupt


def test_a_call_in_which_the_client_died_is_unknown_and_has_no_end(tmp_path: Path) -> None:
    with Recorder(tmp_path / "calls") as recorder, pytest.raises(KeyboardInterrupt):
        recorder.commit(Deadly(), claims(EAST, "a"))  # type: ignore[arg-type]
    (operation,) = read_recordings([tmp_path / "calls"])
    assert (operation.answer, operation.end) == ("unknown", math.inf)


def test_a_line_that_was_cut_off_by_the_death_of_the_client_is_no_answer(tmp_path: Path) -> None:
    registry, path = memory_registry(), tmp_path / "calls"
    with Recorder(path) as recorder:
        recorder.commit(registry, claims(EAST, "a"))
    path.write_text(path.read_text()[:-5])
    (operation,) = read_recordings([path])
    assert operation.answer == "unknown"
    registry.close()


def test_a_lookup_without_an_answer_is_unknown(tmp_path: Path) -> None:
    acceptor = FaultyStore()
    registry = memory_registry(acceptor, clock=ManualClock())
    acceptor.fail("down")
    with Recorder(tmp_path / "calls") as recorder:
        recorder.lookup(registry, claims("", "a"))
    assert [o.answer for o in read_recordings([tmp_path / "calls"])] == ["unknown"]
    registry.close()
