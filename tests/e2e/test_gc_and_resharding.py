"""`photon registry gc` and `photon registry reshard` on a pipeline that has joined: what goes, what stays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from photon.process.clock import MICROSECONDS
from photon.registry.opening import close_registries
from photon.registry.servers.local_server import local_server
from photon.verification.report import TERMS
from tests.e2e.gc_world import CODECS, DAY_US, OLD, YOUNG, World, photon, told

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_server(tmp_path_factory.mktemp("dynamodb")) as started:
        yield started


MakeWorld = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path, url: str) -> MakeWorld:
    """A world with such ids, whose registry keeps them for so many days."""
    return lambda codec="", keep_days=30: World(tmp_path, url, codec, keep_days)


@pytest.fixture(autouse=True)
def everything_closed() -> Iterator[None]:
    yield
    close_registries()


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_old_ids_go_and_are_never_joined_again_not_even_by_a_new_epoch(make: MakeWorld, codec: str) -> None:
    world = make(codec)
    assert world.join()["joined"] == OLD
    world.verified(until_us=world.now_us)
    close_registries()
    done = told(photon("registry", "gc", world.file, "--json"))
    assert done["boundary_before"] is None
    assert done["because"] == "ids are kept for 30 days"
    assert (done["rolled"], done["dropped"], done["problem"]) == (True, [0], None)
    assert (done["before"]["ids"], done["after"]["ids"]) == (OLD, 0)
    assert done["after"]["bytes"] < done["before"]["bytes"]
    world.write_young_events()
    assert world.join()["joined"] == OLD + YOUNG
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
    told(photon("registry", "gc", world.file, "--json"))
    late_us = world.now_us - 35 * DAY_US
    world.write("queries", "query,at", [f"late,{late_us}"], "b")
    world.write("clicks", "click,query,at", [f"late,late,{late_us}"], "b")
    assert world.join()["too_old"] == 1
    assert world.rows()["late"] == 0


def test_the_boundary_stays_behind_what_was_verified_and_so_do_its_ids(make: MakeWorld) -> None:
    world = make()
    world.join()
    world.verified(until_us=world.now_us - 40 * DAY_US + 15)
    done = told(photon("registry", "gc", world.file, "--json"))
    assert done["because"] == "east is verified up to there"
    assert (done["rolled"], done["dropped"], done["after"]["ids"]) == (True, [], OLD)


def test_a_dry_run_says_what_would_go_and_nothing_goes(make: MakeWorld) -> None:
    world = make()
    world.join()
    world.verified(until_us=world.now_us)
    told(photon("registry", "gc", world.file, "--dry-run", "--json"))
    assert photon("registry", "gc", world.file, "--dry-run").output.startswith("dry run")
    done = told(photon("registry", "gc", world.file, "--json"))
    assert (done["boundary_before"], done["before"]["ids"], done["after"]["ids"]) == (None, OLD, 0)


@pytest.mark.parametrize("keep_days", [30, None])
def test_without_a_verification_or_a_number_of_days_nothing_goes(
    make: MakeWorld, keep_days: int | None
) -> None:
    world = make(keep_days=keep_days)
    world.join()
    done = told(photon("registry", "gc", world.file, "--json"))
    assert (done["boundary"], done["dropped"]) == (None, [])
    assert ("never verified" if keep_days else "keep_days is null") in done["because"]
    assert photon("registry", "gc", world.file).output.startswith("boundary: none")


def test_a_later_pass_goes_on_where_the_boundary_stands_already(make: MakeWorld) -> None:
    world = make()
    world.join()
    world.verified(until_us=world.now_us)
    first = told(photon("registry", "gc", world.file, "--json"))
    world.verified(until_us=None)  # as if every log were unreadable: the boundary stays where it is
    second = told(photon("registry", "gc", world.file, "--json"))
    assert second["boundary"] == second["boundary_before"] == first["boundary"]
    assert (second["rolled"], second["dropped"]) == (False, [])


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("shared_spark")
def test_gc_goes_by_a_verification_on_record(make: MakeWorld) -> None:
    world = make()
    world.join()
    told(photon("registry", "reshard", world.file, "2", "--json"))  # the old ids are in ledgers of their own
    world.write_young_events()
    world.join()
    verified = told(photon("verify", world.file, "--record", "--json"))
    assert verified["east"]["verified_until_us"] == world.now_us - 60 * MICROSECONDS + YOUNG - 1
    done = told(photon("registry", "gc", world.file, "--json"))
    assert (done["before"]["ids"], done["after"]["ids"]) == (OLD + YOUNG, YOUNG)
    old_us = world.now_us - 40 * DAY_US  # logged a second time, after its id is gone
    world.write("clicks", "click,query,at", [f"server:7:{old_us},q{old_us},{old_us}"], "b")
    counted = world.join()
    assert (counted["joined"], counted["duplicates"], counted["too_old"]) == (OLD + YOUNG, 0, 1)
    after = told(photon("verify", world.file, "--json"))
    assert after["ok"]
    assert {term: after["east"][term] for term in TERMS} == {term: counted.get(term, 0) for term in TERMS}


# -- photon registry reshard


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_another_number_of_ledgers_counts_at_once_and_the_join_goes_on(make: MakeWorld, codec: str) -> None:
    world = make(codec)
    world.join()
    done = told(photon("registry", "reshard", world.file, "3", "--json"))
    assert (done["ledgers_before"], done["ledgers"], done["applied"]) == (1, 3, True)
    assert photon("registry", "reshard", world.file, "3").output == "3 ledgers: there are 3 ledgers\n"
    world.write_young_events()
    assert world.join()["joined"] == OLD + YOUNG
    state = told(photon("registry", "state", world.file, "--json"))
    assert (state["ids"], state["generations"], len(state["ledgers"])) == (OLD + YOUNG, 2, 4)
    assert photon("registry", "reshard", world.file, "1").output.startswith("1 ledgers from now on")


def test_a_new_epoch_knows_what_was_joined_before_a_reshard(make: MakeWorld) -> None:
    world = make()
    world.join()
    told(photon("registry", "reshard", world.file, "2", "--json"))
    shutil.move(world.pipeline.datacenters["east"].state, world.folder / "lost")
    assert world.join()["joined"] == OLD
    assert set(world.rows().values()) == {1}


def test_without_a_number_the_policy_is_asked(make: MakeWorld) -> None:
    world = make()
    world.join()
    done = told(photon("registry", "reshard", world.file, "--json"))
    assert (done["ledgers_wanted"], done["applied"], done["is_due"]) == (1, False, False)


@pytest.mark.parametrize("ledgers", ["0", "many", "65"])
def test_a_number_that_no_registry_has_is_wrong_usage(tmp_path: Path, ledgers: str) -> None:
    assert photon("registry", "reshard", tmp_path / "pipeline.yaml", ledgers).exit_code == 2
