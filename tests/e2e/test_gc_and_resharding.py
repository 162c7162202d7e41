"""`photon gc` and `photon reshard` on a pipeline that has joined: what goes, what stays, what is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from photon.clock import MICROSECONDS, SystemClock
from photon.ledger.opening import close_registries
from photon.ledger.servers.local_server import local_server
from photon.verification.report import TERMS
from tests.e2e.gc_world import DAY_US, IDENTITIES, OLD, YOUNG, World, photon, told

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_server(tmp_path_factory.mktemp("dynamodb")) as started:
        yield started


MakeWorld = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path, url: str) -> MakeWorld:
    """A world with this identity of events, whose registry keeps ids for so many days."""

    def make(identity: str = "time_in_id: true", keep_days: int | None = 30) -> World:
        return World(tmp_path, url, identity, keep_days)

    return make


@pytest.fixture(autouse=True)
def everything_closed() -> Iterator[None]:
    yield
    close_registries()


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES)
def test_old_ids_go_and_are_never_joined_again_not_even_by_a_new_epoch(
    make: MakeWorld, identity: str
) -> None:
    world = make(identity)
    assert world.join()["joined"] == OLD + YOUNG
    world.verified(until_us=world.now_us)
    close_registries()
    done = told(photon("gc", world.file, "--json"))
    (endpoint,) = done["endpoints"].values()
    assert done["boundary_before"] is None
    assert done["because"] == "ids are kept for 30 days"
    assert (endpoint["items_deleted"], endpoint["problem"]) == (OLD, "")
    others = 2  # the register, and the mark of the epoch
    assert (endpoint["items_before"], endpoint["items_after"]) == (OLD + YOUNG + others, YOUNG + others)
    assert endpoint["bytes_deleted"] > OLD * 50
    # The state is lost: a new epoch reads all logs from their start.
    shutil.move(world.pipeline.datacenters["east"].state, world.folder / "lost")
    again = world.join()
    assert again["joined"] == again["foreign"] == OLD + YOUNG  # the old ones by the rows that are there
    assert set(world.rows().values()) == {1}
    assert len(world.rows()) == OLD + YOUNG


def test_a_late_event_below_the_boundary_is_counted_as_too_old(make: MakeWorld) -> None:
    world = make()
    world.join()
    world.verified(until_us=world.now_us)
    told(photon("gc", world.file, "--json"))
    late_us = world.now_us - 35 * DAY_US
    world.write("queries", "query,at", [f"late,{late_us}"], "b")
    world.write("clicks", "click,query,at", [f"late,late,{late_us}"], "b")
    assert world.join()["too_old"] == 1
    assert world.rows()["late"] == 0


def test_the_boundary_stays_behind_what_was_verified(make: MakeWorld) -> None:
    world = make()
    world.join()
    world.verified(until_us=world.now_us - 40 * DAY_US + 15)
    done = told(photon("gc", world.file, "--json"))
    assert done["because"] == "east is verified up to there"
    (endpoint,) = done["endpoints"].values()
    assert endpoint["items_deleted"] == 15


@pytest.mark.parametrize("keep_days", [30, None])
def test_without_a_verification_or_a_number_of_days_nothing_goes(
    make: MakeWorld, keep_days: int | None
) -> None:
    world = make(keep_days=keep_days)
    world.join()
    done = told(photon("gc", world.file, "--json"))
    assert (done["boundary"], done["endpoints"]) == (None, {})
    assert ("never verified" if keep_days else "keep_days is null") in done["because"]
    assert photon("gc", world.file).output.startswith("boundary: none")


def test_a_later_pass_goes_on_where_the_boundary_stands_already(make: MakeWorld) -> None:
    world = make()
    world.join()
    world.verified(until_us=world.now_us)
    first = told(photon("gc", world.file, "--json"))
    world.verified(until_us=None)  # as if every log were unreadable: the boundary stays where it is
    second = told(photon("gc", world.file, "--json"))
    assert second["boundary"] == second["boundary_before"] == first["boundary"]
    assert [one["items_deleted"] for one in second["endpoints"].values()] == [0]


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("shared_spark")
def test_gc_goes_by_a_verification_on_record(make: MakeWorld) -> None:
    world = make()
    world.join()
    verified = told(photon("verify", world.file, "--record", "--json"))
    assert verified["east"]["verified_until_us"] == world.now_us - 60 * MICROSECONDS + YOUNG - 1
    (endpoint,) = told(photon("gc", world.file, "--json"))["endpoints"].values()
    assert endpoint["items_deleted"] == OLD
    old_us = world.now_us - 40 * DAY_US  # logged a second time, after its id is gone
    world.write("clicks", "click,query,at", [f"server:7:{old_us},q{old_us},{old_us}"], "b")
    counted = world.join()
    assert (counted["joined"], counted["duplicates"], counted["too_old"]) == (OLD + YOUNG, 0, 1)
    after = told(photon("verify", world.file, "--json"))
    assert after["ok"]
    assert {term: after["east"][term] for term in TERMS} == {term: counted[term] for term in TERMS}


# -- photon reshard


def test_another_number_of_shards_begins_at_the_horizon_and_the_join_goes_on(make: MakeWorld) -> None:
    world = make()
    world.join()
    done = told(photon("reshard", world.file, "12", "--json"))
    assert (done["before"], done["shards"]) == (4, 12)
    assert done["begins_us"] > world.now_us
    assert "12 shards for events from " in photon("reshard", world.file, "12").output
    time_us = SystemClock().now_us()
    world.write("queries", "query,at", [f"new,{time_us}"], "b")
    world.write("clicks", "click,query,at", [f"new,new,{time_us}"], "b")
    assert world.join()["joined"] == OLD + YOUNG + 1
    assert photon("reshard", world.file, "4").output == "4 shards are in force\n"


def test_where_ids_carry_no_time_it_is_refused_with_the_reason(make: MakeWorld) -> None:
    world = make("time_in_id: false")
    refused = photon("reshard", world.file, "12")
    assert refused.exit_code == 3
    assert "carry no time" in refused.output


@pytest.mark.parametrize("shards", ["0", "many", "65537"])
def test_a_number_that_no_registry_has_is_wrong_usage(tmp_path: Path, shards: str) -> None:
    assert photon("reshard", tmp_path / "pipeline.yaml", shards).exit_code == 2
