"""Nobody waits for a lake that hangs for longer than a moment."""

from __future__ import annotations

import threading
from collections.abc import ItemsView
from datetime import timedelta

import pytest

from photon.dispatcher.recovery.distant_lakes import DistantLakes
from photon.dispatcher.recovery.second_rows import note_second_rows
from photon.health import lakes as lakes_module
from photon.health.lakes import second_rows
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Datacenter
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import CommitConflict
from tests.e2e.process_marks import soon


def test_a_lake_that_hangs_is_asked_again_only_once_it_has_answered() -> None:
    lakes, thawed, asked = DistantLakes(timedelta(milliseconds=50)), threading.Event(), list[str]()

    def hang() -> str:
        asked.append("west")
        thawed.wait()
        return "row"

    for reason in ("does not answer within", "still does not answer", "still does not answer"):
        with pytest.raises(LakeUnavailable, match=reason):
            lakes.ask("west", hang)
    assert asked == ["west"]
    assert lakes.ask("north", lambda: "row") == "row"
    thawed.set()

    def answers() -> bool:
        try:
            return lakes.ask("west", hang) == "row"
        except LakeUnavailable:
            return False

    assert soon(answers)


def test_what_a_lake_refuses_is_told_as_it_is() -> None:
    def refuse() -> None:
        raise CommitConflict("just written")

    with pytest.raises(CommitConflict, match="just written"):
        DistantLakes(timedelta(seconds=10)).ask("west", refuse)


def test_however_often_second_rows_are_looked_for_beside_a_lake_that_hangs_one_thread_waits(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakes_module, "ANSWERS_WITHIN_SECONDS", 0.01)
    thawed, asked = threading.Event(), list[str]()

    class Hanging(dict[str, Datacenter]):
        def items(self) -> ItemsView[str, Datacenter]:  # type: ignore[override]
            asked.append("lakes")
            thawed.wait()
            return super().items()

    name, place = next(iter(pipeline.datacenters.items()))
    place.state.mkdir(parents=True)
    note_second_rows(place.state, {"a": "b"})
    beside = pipeline.model_copy(update={"datacenters": Hanging(pipeline.datacenters)})
    assert [second_rows(beside, name) for _ in range(3)] == ["", "", ""]
    thawed.set()
    assert asked == ["lakes"]
