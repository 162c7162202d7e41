"""No advice contradicts another: nobody is told to start what no start would have join."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from photon.dispatcher.completion import AdapterFails
from photon.dispatcher.other_settings import SettingsChanged
from photon.dispatcher.refusals import PlaceTaken
from photon.dispatcher.shift.people import Decisions, beside_states
from photon.health.facts import look
from photon.health.headline import headline, sentences
from photon.health.memory import Memory
from photon.health.status import status_of
from photon.health.verdict import worst
from photon.pipeline.file import load_pipeline
from tests.simulation import failing_adapter
from tests.simulation.test_changed_tables import constrain
from tests.simulation.world import World
from tests.support.verdicts import found_in

START = "start it with photon join"


def advice(world: World) -> str:
    """All that `photon status` says of east before its details."""
    one = status_of(world.pipeline, "east", world.clock, Decisions())
    return "\n".join([headline(one, str(world.pipeline.file)), *sentences(one)])


def has_work(tmp_path: Path, more: str = "") -> World:
    """East has joined, and nobody runs it, though more was logged since."""
    world = World(tmp_path, more=more)
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    world.join()
    world.clicks(("c2", "q2"))
    assert START in advice(world)
    return world


def table(world: World, name: str = "joined_events") -> Path:
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    return lake / name


def has_a_constraint(world: World) -> Callable[[], None]:
    return constrain(table(world))


def has_a_constraint_on_dead_letters(world: World) -> Callable[[], None]:
    letters = table(world, "dead_letters")
    DeltaTable(letters).alter.add_constraint({"reasoned": "reason is not null"})
    return lambda: DeltaTable(letters).alter.drop_constraint("reasoned")


def is_not_mounted(world: World) -> Callable[[], None]:
    lake = table(world).parent
    away = lake.rename(lake.with_name("not mounted"))
    return lambda: [away.rename(lake)].clear()


def is_of_another_pipeline(world: World) -> Callable[[], None]:
    return edits(world, "name: searches", "name: views")


def makes_other_ids(world: World) -> Callable[[], None]:
    return edits(world, "id: click", "id: query")


def edits(world: World, old: str, new: str) -> Callable[[], None]:
    file, text = world.pipeline.file, world.pipeline.file.read_text()
    file.write_text(text.replace(old, new))
    world.pipeline = load_pipeline(file)

    def undo() -> None:
        file.write_text(text)
        world.pipeline = load_pipeline(file)

    return undo


@pytest.mark.parametrize(
    "block",
    [
        has_a_constraint,
        has_a_constraint_on_dead_letters,
        is_not_mounted,
        is_of_another_pipeline,
        makes_other_ids,
    ],
)
def test_nobody_is_told_to_start_what_can_not_join_before_it_is_mended(
    tmp_path: Path, block: Callable[[World], Callable[[], None]]
) -> None:
    world = has_work(tmp_path)
    mend = block(world)
    said = advice(world)
    assert START not in said
    assert "mend first what NEEDS YOU says below: no start joins anything before that" in said
    assert "\nNEEDS YOU: " in said
    mend()
    assert START in advice(world)
    assert world.join().counts.of("joined") == 2


@pytest.mark.parametrize(
    ("block", "error"), [(is_of_another_pipeline, PlaceTaken), (makes_other_ids, SettingsChanged)]
)
def test_the_check_says_what_a_start_would_say(
    tmp_path: Path, block: Callable[[World], Callable[[], None]], error: type[Exception]
) -> None:
    world = has_work(tmp_path)
    block(world)
    with pytest.raises(error) as refused:
        world.join()
    world.clock.advance(3_600)
    found = look(world.pipeline, "east", world.clock.now_us(), decisions=Decisions())
    verdict = found_in(found, Memory().after(found), world.pipeline)["works"]
    assert verdict.level == "error"
    assert str(refused.value) in verdict.says
    assert "nobody has run it" not in verdict.text


def test_a_local_registry_that_is_gone_keeps_each_start_from_joining(tmp_path: Path) -> None:
    world = has_work(tmp_path)  # the registry is in memory: there is no folder
    decisions = beside_states(world.pipeline, Decisions())
    one = status_of(world.pipeline, "east", world.clock, decisions)
    assert START not in headline(one, "p.yaml")
    assert f"put {world.pipeline.registry_folder} back" in one.facts.refused
    world.pipeline.registry_folder.mkdir(parents=True)
    assert beside_states(world.pipeline, Decisions()) == Decisions()


@pytest.mark.parametrize(
    ("missing", "short"), [("there is no registry", "can't start"), ("", "is not running")]
)
def test_a_registry_of_servers_that_lacks_the_pipeline_is_told_by_status_and_check(
    tmp_path: Path, missing: str, short: str
) -> None:
    world = has_work(tmp_path)
    decisions = Decisions(unknown_because=missing or None, refused_because=missing)
    one = status_of(world.pipeline, "east", world.clock, decisions)
    assert (START in headline(one, "p.yaml")) is not bool(missing)
    found = look(world.pipeline, "east", world.clock.now_us(), decisions=decisions)
    verdict = found_in(found, Memory().after(found), world.pipeline)["works"]
    assert verdict.in_short == short


def test_an_error_that_ended_the_last_join_comes_before_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = has_work(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")
    names = [f"d{number}" for number in range(100)]
    world.clicks(*((name, "q1") for name in names))
    monkeypatch.setattr(failing_adapter, "fails_on", names)
    with pytest.raises(AdapterFails):
        world.join()
    said = advice(world)
    assert "do first what NEEDS YOU says below of its last join, then start it with photon join" in said
    assert "NEEDS YOU: its last join was ended by an error: datacenter east: adapter" in said
    world.clock.advance(3_600)
    works = worst(status_of(world.pipeline, "east", world.clock, Decisions()).verdicts["works"])
    assert works.remedy.startswith("do first what the error says that ended its last join (datacenter east")
    monkeypatch.setattr(failing_adapter, "fails_on", ())
    world.join()
    assert "NEEDS YOU" not in advice(world)
