"""`photon registry gc` and `photon registry reshard` on a pipeline that has joined: what goes, what stays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from photon.process.clock import MICROSECONDS
from photon.registry.opening import close_registries
from photon.verification.report import TERMS
from tests.e2e.gc_world import DAY_US, OLD, YOUNG, World, photon, told
from tests.support.local_servers import local_server

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_server(tmp_path_factory.mktemp("dynamodb")) as started:
        yield started


MakeWorld = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path, url: str) -> MakeWorld:
    """A world whose registry keeps ids for so many days."""
    return lambda keep_days=30: World(tmp_path, url, keep_days)


@pytest.fixture(autouse=True)
def everything_closed() -> Iterator[None]:
    yield
    close_registries()


def test_old_ids_go_and_are_never_joined_again_not_even_by_a_new_epoch(make: MakeWorld) -> None:
    world = make()
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


def test_another_number_of_ledgers_counts_at_once_and_the_join_goes_on(make: MakeWorld) -> None:
    world = make()
    world.join()
    done = told(photon("registry", "reshard", world.file, "3", "--json"))
    assert (done["ledgers_before"], done["ledgers"], done["applied"]) == (1, 3, True)
    assert photon("registry", "reshard", world.file, "3").output == "3 ledgers: as they are already\n"
    world.write_young_events()
    assert world.join()["joined"] == OLD + YOUNG
    state = told(photon("registry", "state", world.file, "--json"))
    assert (state["ids"], state["generations"], len(state["ledgers"])) == (OLD + YOUNG, 2, 4)
    assert photon("registry", "reshard", world.file, "1").output.startswith("1 ledger from now on")


def test_without_a_number_the_policy_is_asked(make: MakeWorld) -> None:
    world = make()
    world.join()
    done = told(photon("registry", "reshard", world.file, "--json"))
    assert (done["ledgers_wanted"], done["applied"], done["is_due"]) == (1, False, False)
