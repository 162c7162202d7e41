"""`photon status` by stage: what is unread, planned, not committed, waiting and ordered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from photon.cli.main import main
from photon.dispatcher.shift import people
from photon.health.headline import headline
from photon.health.status import DatacenterStatus, status_of
from photon.upkeep.dead_letters.open_letters import plan_recovery_of_letters
from tests.simulation import failing_adapter
from tests.simulation.mending_stories import mend, world_with_a_bad_line
from tests.simulation.world import World


def status(world: World) -> DatacenterStatus:
    return status_of(world.pipeline, "east", world.clock)


def test_a_batch_that_is_not_committed_is_told_until_it_is(world: World) -> None:
    world.events("c1")
    assert world.join_with_a_crash("commit.before_main")
    work = status(world).stages.uncommitted
    assert (work.plans, work.batch, work.attempt) == (1, 1, 1)
    sizes = [(world.folder / f"logs/east/{kind}/a.jsonl").stat().st_size for kind in ("queries", "clicks")]
    assert [work.primary_bytes, work.foreign_bytes] == sizes
    world.join()
    assert status(world).stages.uncommitted.plans == 0


def test_the_oldest_that_waits_is_told_by_reason(world: World) -> None:
    world.clicks(("c1", "never"))
    world.join()
    world.clock.advance(90.0)
    world.clicks(("c2", "never"))
    world.join()
    one = status(world)
    assert one.waiting == {"primary": 2}
    assert one.stages.oldest_waiting_seconds == {"primary": pytest.approx(90, abs=5)}


def test_what_was_decided_is_not_the_oldest_that_waits(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    world.clock.advance(90.0)
    world.clicks(("c2", "never"))
    world.queries("q1")
    world.join()
    assert status(world).stages.oldest_waiting_seconds == {"primary": pytest.approx(0, abs=5)}


def test_half_a_line_is_left_to_its_writer_and_a_whole_one_is_to_be_read(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    log = world.folder / "logs/east/clicks/a.jsonl"
    with log.open("a") as file:
        file.write('{"click": "half')
    said = headline(status(world), "p.yaml")
    assert said == (
        "east is at rest: only half a line waits in clicks/a.jsonl (15 bytes), and its writer has to end it; "
        "1 event waits"
    )
    with log.open("a") as file:
        file.write('"}\n{"click')
    assert "is NOT RUNNING" in headline(status(world), "p.yaml")


def test_orders_wait_and_then_their_records_do(world: World) -> None:
    world_with_a_bad_line(world)
    mend(world)
    assert status(world).stages.orders.waiting == 1
    assert world.join_with_a_crash("order.after_taken")
    one = status(world)
    assert (one.stages.requeued.plans, one.stages.requeued.records) == (1, 1)
    assert one.waiting == {"requeued": 1}
    assert list(one.stages.oldest_waiting_seconds) == ["requeued"]
    world.join()
    assert status(world).stages.requeued.plans == status(world).stages.orders.waiting == 0


def test_an_order_that_could_not_be_read_is_told(world: World) -> None:
    world_with_a_bad_line(world)
    (world.state() / "orders").mkdir()
    (world.state() / "orders" / "0000000009-x.json").write_text("{")
    world.join()
    assert (status(world).stages.orders.waiting, status(world).stages.orders.refused) == (0, 1)


def test_people_read_first_how_it_stands_and_find_the_stages_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")
    monkeypatch.setattr(failing_adapter, "fails_on", ["c1"])
    world.queries("q1")
    world.clicks(("c1", "q1"), ("c2", "never"))
    world.join()
    plan_recovery_of_letters(world.pipeline, "east").apply()
    monkeypatch.setattr(people, "beside_states", lambda _, known: known)  # the world's registry is in memory
    said = CliRunner().invoke(main, ["status", str(world.pipeline.file)]).output.splitlines()
    bad = "east has bad records (1 of all 2 foreign records are dead letters)"
    unverified = "was never verified"  # the world's clock is years behind this machine's
    assert said[:2] == [f"1 of 1 datacenter needs somebody: {bad} and {unverified}", ""]
    assert said[2].startswith("east is at rest")
    assert said[3].startswith("  1 event waits for a primary event that is in no log yet; the oldest was")
    assert said[5].startswith("  1 work order waits until it runs again, the oldest for ")
    assert "  work orders: 1 waiting, 0 refused" in said
    value = json.loads(CliRunner().invoke(main, ["status", str(world.pipeline.file), "--json"]).stdout)
    assert value["east"]["stages"]["orders"]["waiting"] == 1
