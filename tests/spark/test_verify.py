"""`verify` on generated traffic: a sound join is found sound, and each planted fault is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from examples.demo.stories import ILLS
from examples.demo.traffic import Traffic
from photon.dispatcher.shift.run import prepare, run_shift
from photon.pipeline.file import Pipeline, load_pipeline
from photon.registry.opening import open_reader
from photon.state.outcomes import Counts
from photon.state.view import ReadOffsets, read_offsets
from photon.storage.tables import OutputTable
from photon.upkeep.recovery import RecoveryPlan
from photon.upkeep.retire import plan_retire
from photon.verification import case_pages
from photon.verification.report import TERMS, DatacenterReport, Finding, VerificationReport
from tests.support.csv_pipelines import joined_csv

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.timeout(900)]

SEED = 11
ADAPTER = '''
import pyarrow as pa
import pyarrow.compute as pc
from photon.adapters import Adapted, Adapter, merge


class Picky(Adapter):
    """Passes over position 9, drops position 10, fails on one event."""

    def skip(self, foreign):
        return pc.equal(foreign["position"], "9").combine_chunks()

    def combine(self, foreign, primary):
        if any(event_id.endswith("-00000010") for event_id in foreign["click_id"].to_pylist()):
            raise ValueError("this one I can't stand")
        kept = pc.not_equal(foreign["position"], "10").combine_chunks()
        return Adapted(merge(foreign, primary).filter(kept), kept)
'''
SETTINGS = """
adapter: picky:Picky
home: {takeover_delay: 5s}
"""


@dataclass
class World:
    """Two datacenters, joined as far as a test asks, and what the dispatchers counted."""

    pipeline: Pipeline
    verify: Callable[[], VerificationReport]
    verify_alone: Callable[
        [], VerificationReport
    ]  # without Spark, which has told the same kinds of findings before
    counts: dict[str, Counts]

    def join(self, mode: str) -> None:
        """Both datacenters at once, so that both have rows."""
        with ThreadPoolExecutor(2) as pool:
            names = list(self.pipeline.datacenters)
            results = pool.map(lambda name: run_shift(self.pipeline, name, mode), names)  # type: ignore[arg-type]
            self.counts = {name: result.counts for name, result in zip(names, results, strict=True)}

    def read_offsets(self) -> dict[str, ReadOffsets]:
        return {name: read_offsets(place.state) for name, place in self.pipeline.datacenters.items()}

    def table(self, datacenter: str, name: Any = "joined_events") -> DeltaTable:
        return OutputTable(self.pipeline.datacenters[datacenter].lake, name).load()

    def rows(self, datacenter: str) -> list[dict[str, Any]]:
        rows = self.table(datacenter).to_pyarrow_table().to_pylist()
        plain = [row for row in rows if row["click_id"].startswith(f"c{SEED}-0")]  # each logged once
        return sorted(plain, key=lambda row: str(row["_event_id"]))


@pytest.fixture(scope="module")
def world(session: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    from tests.spark.both_engines import verify, verify_alone

    # A folder as people have them: Spark and Delta write such names each in their own way.
    folder = tmp_path_factory.mktemp("verify") / "Läden & Co #1 100%"
    folder.mkdir()
    print(f"traffic of seed {SEED}")
    traffic = Traffic(SEED, duration_seconds=30, foreign_per_second=20, ills={ill.name: 3 for ill in ILLS})
    traffic.write_all(folder)
    (folder / "picky.py").write_text(ADAPTER)
    pipeline = load_pipeline(traffic.write_pipeline(folder, more=SETTINGS))
    prepare(pipeline)
    names = list(pipeline.datacenters)
    by_both, alone = partial(verify, pipeline, names, session=session), partial(verify_alone, pipeline, names)
    made = World(pipeline, by_both, alone, {})
    made.join("until_idle")
    return made


# The reports build on one another, in this order: while events wait; complete, after one datacenter has
# lost its state; with faults planted in tables; with log files gone; after a recovery.


@pytest.fixture(scope="module")
def offsets_while_waiting(world: World) -> dict[str, ReadOffsets]:
    return world.read_offsets()


@pytest.fixture(scope="module")
def while_waiting(world: World, offsets_while_waiting: dict[str, ReadOffsets]) -> VerificationReport:
    return world.verify()


@pytest.fixture(scope="module")
def after_a_lost_state(world: World, while_waiting: VerificationReport) -> VerificationReport:
    world.join("complete")
    shutil.rmtree(world.pipeline.datacenters["east"].state)
    world.join("complete")
    return world.verify_alone()  # by both engines once faults are planted


@dataclass(frozen=True)
class Planted:
    """Rows that were planted in the tables, and what verification says of them."""

    report: VerificationReport
    events: dict[tuple[str, str], str]  # one id for each datacenter and kind of finding


@pytest.fixture(scope="module")
def planted(world: World, after_a_lost_state: VerificationReport) -> Planted:
    ids = [row["_event_id"] for row in world.rows("west")[:5]]
    removed, doubled, changed, moved, said_unjoinable = ids
    of_east = world.rows("east")[0]["_event_id"]
    touched = [("west", "joined_events"), ("east", "joined_events"), ("west", "unjoined")]
    versions = [world.table(*which).version() for which in touched]
    (row,) = [row for row in world.rows("west") if row["_event_id"] == said_unjoinable]
    rows = world.table("west").to_pyarrow_table()
    world.table("west").delete(f"_event_id in ('{removed}', '{said_unjoinable}')")
    double = rows.filter(pa.compute.equal(rows["_event_id"], doubled))
    write_deltalake(world.table("west"), double, mode="append")
    world.table("west").update({"primary_text": "'forged'"}, predicate=f"_event_id = '{changed}'")
    world.table("west").update({"_occurrence": "'1:7'"}, predicate=f"_event_id = '{moved}'")
    world.table("east").update({"primary_text": "'forged'"}, predicate=f"_event_id = '{of_east}'")
    given_up = {name: row[name] for name in ("_datacenter", "_epoch", "_batch", "_occurrence")}
    schema = pa.schema(world.table("west", "unjoined").schema().to_arrow())
    unjoined = pa.Table.from_pylist([{**given_up, "event_id": said_unjoinable}], schema)
    write_deltalake(world.table("west", "unjoined"), unjoined, mode="append")
    report = world.verify()
    for which, version in zip(touched, versions, strict=True):
        world.table(*which).restore(version)
    events = {
        ("west", "missing"): removed,
        ("west", "duplicate_rows"): doubled,
        ("west", "different_values"): changed,
        ("east", "different_values"): of_east,  # the row is of an earlier epoch
        ("west", "row_without_event"): moved,
        ("west", "unjoinable_but_joinable"): said_unjoinable,
    }
    return Planted(report, events)


@pytest.fixture(scope="module")
def without_some_files(world: World, planted: Planted) -> VerificationReport:
    logs = world.pipeline.datacenters["west"].logs
    gone = [_largest(logs / side) for side in ("clicks", "queries")]
    hidden = [path.rename(world.pipeline.file.parent / path.name) for path in gone]
    report = world.verify_alone()
    for place, path in zip(hidden, gone, strict=True):
        place.rename(path)
    return report


@pytest.fixture(scope="module")
def recovered(
    world: World, without_some_files: VerificationReport
) -> tuple[str, VerificationReport, VerificationReport]:
    """The id of a row that went from west's table; reports of before a recovery, and after it."""
    lost = world.rows("west")[0]["_event_id"]
    world.table("west").delete(f"_event_id = '{lost}'")
    found = world.verify_alone()
    reports = {name: one.as_dict() for name, one in found.datacenters.items()}
    done = RecoveryPlan(world.pipeline, reports).apply()
    assert done["west"].ordered > 0
    assert done["east"].left_to == {"west": done["east"].left_to.total()}
    world.join("until_idle")
    return lost, found, world.verify_alone()


def _largest(folder: Path) -> Path:
    return max(folder.iterdir(), key=lambda path: path.stat().st_size)


def finding(report: DatacenterReport, kind: str) -> Finding:
    (found,) = [found for found in report.findings if found.kind == kind]
    return found


def ids(found: Finding) -> set[str]:
    return {example.event_id for example in found.examples}


def equation_of(counts: Counts) -> dict[str, int]:
    return {term: counts.as_dict().get(term, 0) for term in TERMS}  # nobody counts what is missing


def test_a_join_under_way_is_found_sound_and_what_waits_is_pending(
    world: World, while_waiting: VerificationReport
) -> None:
    assert while_waiting.ok, while_waiting.as_dict()
    assert all(report.classes["pending"] == 3 for report in while_waiting.datacenters.values())


def foreign_end_bytes(read: ReadOffsets) -> dict[int, int]:
    """Return the end of what is read of each foreign file, by number."""
    return {tracked.file.number: tracked.offset_bytes for tracked in read.of("foreign")}


def test_a_log_is_verified_up_to_the_first_record_that_waits(
    offsets_while_waiting: dict[str, ReadOffsets], while_waiting: VerificationReport
) -> None:
    for name, read in offsets_while_waiting.items():
        places = zip(read.waiting["file"].to_pylist(), read.waiting["offset"].to_pylist(), strict=True)
        first: dict[int, int] = {}
        for number, offset in sorted(places, reverse=True):
            first[number] = offset
        assert first, "nothing waits, so that this shows nothing"
        ends = {number: first.get(number, end) for number, end in foreign_end_bytes(read).items()}
        begun = {number: end for number, end in ends.items() if end > read.files[number].file.header_bytes}
        assert while_waiting.datacenters[name].newly_verified_offsets == begun


def test_when_all_has_ended_every_log_is_verified_as_far_as_it_was_read(
    world: World, after_a_lost_state: VerificationReport
) -> None:
    for name, read in world.read_offsets().items():
        assert after_a_lost_state.datacenters[name].newly_verified_offsets == foreign_end_bytes(read)


def test_the_equation_found_anew_is_the_one_that_the_dispatchers_counted(
    world: World, after_a_lost_state: VerificationReport
) -> None:
    found = {name: report.equation() for name, report in after_a_lost_state.datacenters.items()}
    assert found == {name: equation_of(counts) for name, counts in world.counts.items()}


def test_a_row_that_is_gone_is_missing_until_it_is_recovered(
    world: World,
    recovered: tuple[str, VerificationReport, VerificationReport],
    after_a_lost_state: VerificationReport,
) -> None:
    lost, found, after = recovered
    assert not found.ok
    for one in found.datacenters.values():
        assert ids(finding(one, "missing")) == {lost}
        assert one.classes["missing"] == finding(one, "missing").count
    assert after.ok, after.as_dict()
    assert after.rows == after_a_lost_state.rows
    for name, report in after.datacenters.items():
        assert report.equation() == after_a_lost_state.datacenters[name].equation()
        assert report.equation() == equation_of(world.counts[name])


def test_every_class_that_the_traffic_has_is_met(after_a_lost_state: VerificationReport) -> None:
    reports = after_a_lost_state.datacenters.values()
    for report in reports:
        for outcome in ("joined", "joined_elsewhere", "filtered", "skipped", "unjoinable"):
            assert report.classes.get(outcome, 0) > 0, outcome
        assert report.classes["dead_letters"] == 5 * 3 + 1  # every fault thrice, and the adapter's own
    assert sum(report.classes.get("duplicates", 0) for report in reports) > 0


def test_rows_of_an_epoch_whose_state_was_lost_are_compared_too(
    after_a_lost_state: VerificationReport,
) -> None:
    assert after_a_lost_state.ok, after_a_lost_state.as_dict()
    assert after_a_lost_state.datacenters["east"].rows > 0
    assert all(report.rows_not_compared == 0 for report in after_a_lost_state.datacenters.values())


def test_a_removed_row_is_missing_in_every_datacenter_and_its_holder_is_named(planted: Planted) -> None:
    for report in planted.report.datacenters.values():
        found = finding(report, "missing")
        assert planted.events["west", "missing"] in ids(found)
        assert all("its row is gone: datacenter west" in e.detail for e in found.examples)


def test_each_planted_fault_is_found_as_what_it_is(planted: Planted) -> None:
    reports = planted.report.datacenters
    found = {(name, one.kind): ids(one) for name, report in reports.items() for one in report.findings}
    expected = {what: {event} for what, event in planted.events.items() if what[1] != "missing"}
    kinds = {kind for _, kind in expected}
    assert {what: events for what, events in found.items() if what[1] in kinds} == expected


def test_what_is_wrong_with_a_row_is_said_with_its_places_and_values(planted: Planted) -> None:
    west = planted.report.datacenters["west"]
    assert finding(west, "duplicate_rows").examples[0].where.count("west: row of ") == 2
    changed = finding(west, "different_values").examples[0].detail
    assert changed.startswith("primary_text is 'forged', a join now gives ")
    assert not finding(west, "unjoinable_but_joinable").meaning.violation


def test_planted_faults_do_not_change_how_many_records_there_are(
    planted: Planted, after_a_lost_state: VerificationReport
) -> None:
    for name, report in planted.report.datacenters.items():
        assert report.foreign == after_a_lost_state.datacenters[name].foreign
    assert not planted.report.ok


def test_log_files_that_are_gone_are_named_and_break_no_promise(
    without_some_files: VerificationReport,
) -> None:
    report = without_some_files.datacenters["west"]
    assert {file.side for file in report.unverified} == {"foreign", "primary"}
    assert all(file.reason == "the file is not there" and file.bytes > 0 for file in report.unverified)
    assert report.rows_not_compared > 0
    assert not report.violations, report.as_dict()
    assert without_some_files.datacenters["east"].unverified == ()


def test_a_log_that_is_gone_is_not_verified_by_that(
    world: World, without_some_files: VerificationReport
) -> None:
    report, read = without_some_files.datacenters["west"], world.read_offsets()["west"]
    gone = {file.path for file in report.unverified}
    left = {tracked.file.number for tracked in read.of("foreign") if tracked.file.path not in gone}
    assert set(report.newly_verified_offsets) == left


def test_one_id_with_two_times_is_one_event_also_where_one_of_two_datacenters_is_asked_for(
    tmp_path: Path,
) -> None:
    from tests.spark.both_engines import verify_alone

    logs = {"q.csv": "q,at\nq1,100\n", "c.csv": "c,q,at\na,q1,101\na,q1,102\nb,q1,103\nb,q1,103\n"}
    report = verify_alone(joined_csv(tmp_path, logs, ("east", "west")), ["east"])
    assert report.ok, report.as_dict()
    assert {name: one.classes for name, one in report.datacenters.items()} == {
        "east": {"joined": 2, "duplicates": 2}
    }


def test_what_recovery_looks_at_is_written_page_by_page(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.spark.both_engines import verify

    monkeypatch.setattr(case_pages, "MOST_CASES", 3)
    clicks = "".join(f"c{n},q1,101\n" for n in range(7))
    pipeline = joined_csv(tmp_path, {"q.csv": "q,at\nq1,100\n", "c.csv": "c,q,at\n" + clicks})
    OutputTable(pipeline.datacenters["east"].lake, "joined_events").load().delete()
    report = verify(pipeline, ["east"], session=session, pages=True).datacenters["east"]
    found = finding(report, "missing")
    assert (found.count, len(found.cases), len(found.pages)) == (7, 3, 2)
    done = RecoveryPlan(pipeline, {"east": report.as_dict()}).expected["east"]
    assert (done.ordered, done.left_out) == (7, 0)


def test_nothing_is_verified_of_a_retired_datacenter_and_what_was_its_is_told_once(tmp_path: Path) -> None:
    from tests.spark.both_engines import verify_alone

    logs = {"q.csv": "q,at\nq1,100\n", "c.csv": "c,q,at\nc1,q1,101\nc2,q1,101\nc3,q2,101\n"}
    pipeline = joined_csv(tmp_path, logs, ("west", "east"))
    shutil.rmtree(pipeline.datacenters["west"].lake)
    plan_retire(pipeline, open_reader(pipeline), "west", lake_is_gone=True).apply()
    report = verify_alone(pipeline, ["east", "west"])
    assert (list(report.datacenters), report.retired) == (["east"], ["west"])
    (found,) = report.datacenters["east"].violations
    assert (found.kind, found.count, found.acting) == ("missing", 2, {"east": 2})
    assert report.datacenters["east"].classes == {"missing": 2, "unjoinable": 1}
