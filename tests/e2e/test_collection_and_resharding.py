"""`photon gc` and `photon reshard` on a pipeline that has joined: what goes, what stays, what is said."""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from photon.cli.main import main
from photon.clock import MICROSECONDS, SystemClock
from photon.dispatcher.window import read_window
from photon.output import OutputTable
from photon.pipeline import Pipeline, load_pipeline
from photon.registry.init import init_registry
from photon.registry.local_server import local_server
from photon.registry.open import close_registries
from photon.shift import run_shift
from photon.verification_report import DatacenterReport, VerificationReport
from photon.verification_table import TERMS, append

pytestmark = [pytest.mark.server, pytest.mark.slow]

DAY_US = 86_400 * MICROSECONDS
OLD, YOUNG = 40, 10
PIPELINE = """
name: {name}
datacenters: {{east: {{logs: logs/east}}}}
primary: {{files: "queries/*.csv", format: csv, id: query, time: at, time_unit: us}}
foreign: {{files: "clicks/*.csv", format: csv, id: click, key: query, time: at, time_unit: us, {identity}}}
registry:
  endpoints: [{{url: {url}}}]
  keep_days: {keep_days}
  shards: 4
  collection: {{page: 7}}
"""
IDENTITIES = {
    "time and id": "time_in_id: true",
    "id with its time": "id_codec: server_process_timestamp",
    "id alone": "time_in_id: false",
}


class World:
    """One datacenter with events of 40 days ago and of today, joined."""

    def __init__(self, folder: Path, url: str, identity: str, keep_days: int | None) -> None:
        self.folder, self.now_us = folder, SystemClock().now_us()
        self.file = folder / "pipeline.yaml"
        days = "null" if keep_days is None else keep_days
        name = f"clicks-{uuid.uuid4().hex[:8]}"
        self.file.write_text(PIPELINE.format(name=name, url=url, identity=identity, keep_days=days))
        self.pipeline: Pipeline = load_pipeline(self.file)
        old = [self.now_us - 40 * DAY_US + number for number in range(OLD)]
        young = [self.now_us - 60 * MICROSECONDS + number for number in range(YOUNG)]
        for side in ("queries", "clicks"):
            (folder / "logs" / "east" / side).mkdir(parents=True)
        self.write("queries", "query,at", [f"q{time_us},{time_us - 1}" for time_us in old + young])
        self.write("clicks", "click,query,at", [f"server:7:{t},q{t},{t}" for t in old + young])
        init_registry(self.pipeline, SystemClock())
        close_registries()

    def write(self, side: str, header: str, lines: list[str], name: str = "a") -> None:
        path = self.folder / "logs" / "east" / side / f"{name}.csv"
        path.write_text("\n".join([header, *lines, ""]))

    def join(self) -> dict[str, int]:
        return run_shift(self.pipeline, "east", "complete", "local").counts.as_dict()

    def verified(self, until_us: int | None) -> None:
        """Have a verification on record that has seen all events up to then."""
        epoch = read_window(self.pipeline.datacenters["east"].state).epoch
        east = DatacenterReport(verified_until_us=until_us, epoch=epoch)
        report = VerificationReport({"east": east}, rows=0)
        append(self.pipeline, report, SystemClock().now_us(), "a run", 1.0)

    def rows(self) -> Counter[str]:
        table = OutputTable(self.pipeline.datacenters["east"].lake, "joined_events").load()
        return Counter(table.to_pyarrow_table(columns=["_event_id"])["_event_id"].to_pylist())


def photon(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


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
    assert (endpoint["items_before"], endpoint["items_after"]) == (OLD + YOUNG + 1, YOUNG + 1)
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
def test_a_verification_on_record_is_what_collection_goes_by(make: MakeWorld) -> None:
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


# -- foreign logs that are deleted after a while


def verified_and_rotated(world: World) -> Path:
    """The log with the old events, joined and verified; another one has a young event."""
    world.join()
    told(photon("verify", world.file, "--record", "--json"))
    young_us = world.now_us - 30 * MICROSECONDS
    world.write("queries", "query,at", [f"young,{young_us}"], "b")
    world.write("clicks", "click,query,at", [f"young,young,{young_us}"], "b")
    world.join()
    return world.folder / "logs" / "east" / "clicks" / "a.csv"


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("noticed", [True, False], ids=["the join has missed it", "nobody has missed it"])
def test_a_log_that_was_deleted_after_it_was_verified_does_not_hold_the_boundary(
    make: MakeWorld, noticed: bool
) -> None:
    world = make()
    log = verified_and_rotated(world)
    read_bytes = log.stat().st_size - len("click,query,at\n")
    log.unlink()
    if noticed:
        world.join()
    east = told(photon("verify", world.file, "--record", "--json"))["east"]
    assert (east["unverified"], east["violations"]) == ([], [])
    assert east["verified_earlier"] == {"files": 1, "bytes": read_bytes, "example": "clicks/a.csv"}
    assert (east["foreign"], east["joined"]) == (1, 1)  # what can be read again, and it adds up
    done = told(photon("gc", world.file, "--json"))
    assert done["because"] == "ids are kept for 30 days"
    assert [one["items_deleted"] for one in done["endpoints"].values()] == [OLD]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_log_that_was_read_further_than_it_was_verified_holds_it_and_is_named(make: MakeWorld) -> None:
    world = make()
    log = verified_and_rotated(world)
    tail = f"late,young,{world.now_us - 20 * MICROSECONDS}\n"
    with log.open("a") as open_log:
        open_log.write(tail)
    world.join()
    hidden = log.rename(world.folder / "a.csv")
    east = told(photon("verify", world.file, "--record", "--json"))["east"]
    assert [(one["path"], one["bytes"]) for one in east["unverified"]] == [("clicks/a.csv", len(tail))]
    assert east["verified_earlier"]["files"] == 0
    done = told(photon("gc", world.file, "--json"))
    assert (done["boundary"], done["endpoints"]) == (None, {})
    assert f"such as clicks/a.csv ({len(tail)} bytes; the file is not there)" in done["because"]
    hidden.rename(log)  # as the message says
    told(photon("verify", world.file, "--record", "--json"))
    log.unlink()
    told(photon("verify", world.file, "--record", "--json"))
    assert told(photon("gc", world.file, "--json"))["because"] == "ids are kept for 30 days"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_what_another_epoch_has_verified_counts_for_nothing(make: MakeWorld) -> None:
    world = make()
    log = verified_and_rotated(world)
    shutil.move(world.pipeline.datacenters["east"].state, world.folder / "lost")
    world.join()  # reads all logs again
    log.unlink()
    east = told(photon("verify", world.file, "--record", "--json"))["east"]
    assert [one["path"] for one in east["unverified"]] == ["clicks/a.csv"]
    assert told(photon("gc", world.file, "--json"))["boundary"] is None


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
