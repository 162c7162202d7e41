"""`verify` beside kept results: it reads only what is new, and says what a verification of all says."""

from __future__ import annotations

import random
import shutil
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from photon.cli.verify import report_text
from photon.dispatcher.shift.run import prepare, run_shift
from photon.pipeline.file import Pipeline
from photon.storage.tables import OutputTable
from photon.upkeep.recovery import RecoveryPlan
from photon.verification.days import HOUR_US, Window
from photon.verification.kept import kept_folder
from photon.verification.report import Finding, VerificationReport
from photon.verification.scope import open_scope
from tests.support.csv_pipelines import csv_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.timeout(3600)]

SETTINGS = """
adapter: ADAPTER:Odd
home: {takeover_delay: 1s}
"""
ADAPTER = '''
import pyarrow.compute as pc
from photon.adapters import Adapted, Adapter, merge


class Odd(Adapter):
    """Drops what says so, and passes over some events."""

    def skip(self, foreign):
        return pc.equal(foreign["v"], "skip").combine_chunks()

    def combine(self, foreign, primary):
        kept = pc.not_equal(foreign["v"], "drop").combine_chunks()
        return Adapted(merge(foreign, primary).filter(kept), kept)
'''
KINDS = ("plain", "plain", "plain", "late", "never", "again", "drop", "skip", "bad")
ALL_HOURS = Window(0, 1_000 * HOUR_US)


@dataclass
class World:
    """Two datacenters with the same logs, which grow step by step."""

    pipeline: Pipeline
    session: Any
    with_spark: bool
    random: random.Random
    events: int = 0
    late: list[str] = field(default_factory=list)  # primaries that have not come yet
    names: tuple[str, ...] = ("east", "west")

    def verify(self, keep: bool = True, **how: Any) -> VerificationReport:
        from tests.spark.both_engines import verify, verify_alone

        if not self.with_spark:
            return verify_alone(self.pipeline, self.names, keep=keep, **how)
        return verify(self.pipeline, self.names, session=self.session, keep=keep, **how)

    def join(self, mode: Any = "until_idle") -> None:
        """Both at once, so that both have rows."""
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda name: run_shift(self.pipeline, name, mode), self.names))

    def table(self, datacenter: str, name: Any = "joined_events") -> DeltaTable:
        return OutputTable(self.pipeline.datacenters[datacenter].lake, name).load()

    def owners(self) -> dict[str, str]:
        """The datacenter of each row, by event."""
        return {
            event: name
            for name in self.names
            for event in self.table(name).to_pyarrow_table(columns=["_event_id"])["_event_id"].to_pylist()
        }

    def append(self, file: str, header: str, lines: list[str]) -> None:
        for name in self.names:
            path = self.pipeline.datacenters[name].logs / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as log:
                log.write(("" if log.tell() else header + "\n") + "".join(line + "\n" for line in lines))

    def log_more(self, file: int, mode: Any = "until_idle") -> None:
        """Both logs grow; some primaries come late, never, or with another time."""
        primaries, foreign = [f"{key},100,late" for key in self.late], []
        self.late = []
        for number in range(20):
            self.events += 1
            kind = KINDS[number] if number < len(KINDS) else self.random.choice(KINDS)
            key, line = f"q{self.events}", f"c{self.events},q{self.events},{3600 * self.events},{kind}"
            foreign += [line, line.replace("again", "other")] if kind == "again" else [line]
            if kind == "bad":
                foreign.append(f"c{self.events},too few")
            if kind == "late":
                self.late.append(key)
            elif kind != "never":
                primaries.append(f"{key},100,{kind}")
        self.append(f"q{file}.csv", "q,at,text", primaries)
        self.append(f"c{file}.csv", "c,q,at,v", foreign)
        self.join(mode)

    def plant_faults(self) -> dict[str, Fault]:
        """A fault of each kind, in rows of settled events; a table now says that a filtered one waited."""
        owners = self.owners()
        removed, doubled, altered, moved = self.random.sample(sorted(owners), 4)
        self.table(owners[removed]).delete(f"_event_id = '{removed}'")
        double_row(self.table(owners[doubled]), doubled)
        for event, column, value in ((altered, "primary_text", "'forged'"), (moved, "_occurrence", "'1:7'")):
            self.table(owners[event]).update({column: value}, predicate=f"_event_id = '{event}'")
        faults = {
            "missing": removed,
            "duplicate_rows": doubled,
            "different_values": altered,
            "row_without_event": moved,
        }
        return {kind: Fault(event, owners[event]) for kind, event in faults.items()}

    def mend(self, found: VerificationReport, faults: dict[str, Fault]) -> None:
        """Do what the texts of the findings tell people to do."""
        from photon.jobs.backfill import rebuild

        RecoveryPlan(self.pipeline, {name: one.as_dict() for name, one in found.datacenters.items()}).apply()
        self.join("complete")
        for name in sorted({fault.owner for kind, fault in faults.items() if kind != "missing"}):
            rebuild(self.pipeline, name, ALL_HOURS, session=self.session)

    def remove_row(self) -> tuple[str, int]:
        """Remove a row; return its event, and how many rows its file had, which come and go together."""
        event, owner = self.random.choice(sorted(self.owners().items()))
        files = (pq.read_table(file, columns=["_event_id"]) for file in self.table(owner).file_uris())
        (beside,) = [rows.num_rows for rows in files if event in rows["_event_id"].to_pylist()]
        self.table(owner).delete(f"_event_id = '{event}'")
        return event, beside

    def tear_logs(self) -> None:
        """Remove a log of west, and cut one of east short."""
        (self.pipeline.datacenters["west"].logs / "c0.csv").unlink()
        path = self.pipeline.datacenters["east"].logs / "c1.csv"
        path.write_text(path.read_text()[:60])

    def lose_state(self) -> None:
        shutil.rmtree(self.pipeline.datacenters["west"].state)
        self.join("complete")


@dataclass(frozen=True)
class Fault:
    """An event whose row was tampered with, and the datacenter that has the row."""

    event: str
    owner: str


def new_world(session: Any, with_spark: bool, folder: Path, seed: int) -> World:
    print(f"seed {seed}")
    module = f"odd_{uuid.uuid4().hex}"  # a process imports a module of one name once
    (folder / f"{module}.py").write_text(ADAPTER)
    pipeline = csv_pipeline(folder, {}, ("east", "west"), SETTINGS.replace("ADAPTER", module))
    prepare(pipeline)
    return World(pipeline, session, with_spark, random.Random(seed))


def double_row(table: DeltaTable, row: str) -> None:
    rows = table.to_pyarrow_table()
    write_deltalake(table, rows.filter(pc.equal(rows["_event_id"], row)).slice(0, 1), mode="append")


def told(report: VerificationReport) -> dict[str, Any]:
    """All that a report says, but for how much was read for it, and what was told before."""
    same = {
        name: replace(one, records_read=0, findings=[as_news(finding) for finding in one.findings])
        for name, one in report.datacenters.items()
    }
    offsets = {name: one.newly_verified_offsets for name, one in same.items()}
    return {**replace(report, datacenters=same).as_dict(), "offsets": offsets}


def as_news(finding: Finding) -> Finding:
    examples = (replace(one, known_us=None) for one in finding.examples)
    return replace(finding, new=None, examples=tuple(sorted(examples, key=lambda one: one.event_id)))


def violations(report: VerificationReport) -> list[tuple[str, Finding]]:
    return [(name, finding) for name, one in report.datacenters.items() for finding in one.violations]


# One story, in this order: all is joined and kept; faults are planted while logs grow; they are mended; a
# row goes; logs are torn. Each verification costs seconds, so that all tests share them. Spark takes ten
# times as long and says the same (docs/adr/0068): the long tests ask it too.
ENGINES = [pytest.param(False, id="alone"), pytest.param(True, id="with_spark", marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=ENGINES)
def world(session: Any, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = new_world(session, request.param, tmp_path_factory.mktemp("kept"), seed=1)
    made.log_more(0, "complete")
    assert made.verify().ok
    return made


@dataclass(frozen=True)
class Faulty:
    """Planted faults, a verification beside kept results, and then one of everything."""

    faults: dict[str, Fault]
    found: VerificationReport
    anew: VerificationReport


@pytest.fixture(scope="module")
def faulty(world: World) -> Faulty:
    faults = world.plant_faults()
    world.log_more(1)  # brings primaries of events that were given up
    return Faulty(faults, world.verify(), world.verify(keep=False, anew=True))


@pytest.fixture(scope="module")
def mended(world: World, faulty: Faulty) -> VerificationReport:
    world.mend(faulty.found, faulty.faults)
    return world.verify()


@pytest.fixture(scope="module")
def without_a_row(world: World, mended: VerificationReport) -> tuple[str, int, VerificationReport]:
    return *world.remove_row(), world.verify()


@pytest.fixture(scope="module")
def torn(world: World, without_a_row: object) -> VerificationReport:
    """Tear the logs; verify beside kept results, and everything anew, which says the same."""
    world.tear_logs()
    world.log_more(2)
    beside, anew = world.verify(), world.verify(keep=False, anew=True)
    assert told(beside) == told(anew)
    return anew


def test_beside_kept_results_a_verification_says_what_one_of_all_says(faulty: Faulty) -> None:
    assert told(faulty.found) == told(faulty.anew)


def test_each_fault_is_told_by_who_has_to_act(world: World, faulty: Faulty) -> None:
    for name, finding in violations(faulty.found):
        assert (finding.count, finding.new, finding.number()) == (1, 1, "1"), (name, finding)
        assert [one.event_id for one in finding.examples] == [faulty.faults[finding.kind].event]
    told_by = {
        kind: {name: finding.acting for name, finding in violations(faulty.found) if finding.kind == kind}
        for kind in faulty.faults
    }
    owners = {kind: fault.owner for kind, fault in faulty.faults.items()}
    lost = owners.pop("missing")
    assert told_by.pop("missing") == {name: {lost: 1} for name in world.names}
    assert report_text(faulty.found, "p.yaml").count(f"    {lost} has to act: see there") == 1
    assert told_by == {kind: {owner: {owner: 1}} for kind, owner in owners.items()}


def test_a_fault_that_was_told_is_no_news(faulty: Faulty) -> None:
    assert [(name, finding.kind) for name, finding in violations(faulty.anew)] == [
        (name, finding.kind) for name, finding in violations(faulty.found)
    ]
    assert {finding.number() for _, finding in violations(faulty.anew)} == {"1 (told before)"}


def test_what_the_texts_name_mends_every_fault(mended: VerificationReport) -> None:
    assert mended.ok, mended.as_dict()


def test_what_is_settled_is_not_read_again_until_something_about_it_changes(
    mended: VerificationReport, without_a_row: tuple[str, int, VerificationReport]
) -> None:
    row, in_its_file, found = without_a_row
    assert {e.event_id for _, finding in violations(found) for e in finding.examples} == {row}
    for name, one in found.datacenters.items():
        # Records given up at complete inputs may be taken up again; each event of the file has two.
        assert one.records_read <= mended.datacenters[name].classes["unjoinable"] + 2 * in_its_file
        assert one.records_read < one.foreign
        assert one.foreign == mended.datacenters[name].foreign


def test_it_says_the_same_when_logs_are_torn(torn: VerificationReport) -> None:
    assert all(one.unverified for one in torn.datacenters.values())


def test_windows_of_event_times_make_up_the_whole(world: World, torn: VerificationReport) -> None:
    middle = 30 * HOUR_US
    parts = [
        world.verify(window=Window(0, middle)),
        world.verify(window=Window(middle, ALL_HOURS.end_us), anew=True),
    ]
    for name, one in torn.datacenters.items():
        together = sum((Counter(part.datacenters[name].classes) for part in parts), Counter[str]())
        bad_lines = one.foreign - together.total()  # bad lines have no time
        assert together + Counter(dead_letters=bad_lines) == Counter(one.classes)
        assert sum(part.datacenters[name].rows for part in parts) == one.rows
    assert all(part.rows > 0 for part in parts)


# The scope says which kept results count before Spark has to do anything.


def counting(world: World) -> set[str]:
    """Return the datacenters whose kept results count, so that not all is read."""
    return set(open_scope(world.pipeline, world.names).since)


def test_nothing_kept_counts_after_a_change_of_the_adapter(world: World, torn: object) -> None:
    (adapter,) = world.pipeline.file.parent.glob("odd_*.py")
    source = adapter.read_text()
    assert counting(world) == {"east", "west"}
    adapter.write_text(source.replace("Drops", "Leaves out"))
    assert counting(world) == set()
    adapter.write_text(source)


def test_a_damaged_kept_file_costs_a_verification_of_all_and_nothing_else(world: World, torn: object) -> None:
    for path in kept_folder(world.pipeline, "east").glob("run-*/settled/*.parquet"):
        path.write_bytes(b"")
    assert counting(world) == {"west"}


def test_nothing_kept_counts_in_a_new_epoch(world: World, torn: object) -> None:
    world.lose_state()
    assert counting(world) == set()
