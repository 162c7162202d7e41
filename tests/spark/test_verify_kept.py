"""`verify` beside kept results: it reads only what is new, and says what a verification of all says."""

from __future__ import annotations

import random
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from photon.cli.verify import report_text
from photon.pipeline.file import Pipeline, load_pipeline
from photon.shift.run import prepare, run_shift
from photon.storage.tables import OutputTable
from photon.verification.days import HOUR_US, Window
from photon.verification.kept import kept_folder
from photon.verification.recovery import recover
from photon.verification.report import Finding, VerificationReport

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.timeout(3600)]

PIPELINE = """
name: kept
datacenters: {east: {logs: logs/east}, west: {logs: logs/west}}
primary: {files: "q*.csv", format: csv, id: q, time: at, time_unit: s}
foreign: {files: "c*.csv", format: csv, id: c, key: q, time: at, time_unit: s}
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
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3)))
KINDS = ("plain", "plain", "plain", "late", "never", "again", "drop", "skip", "bad")


@dataclass
class World:
    """Two datacenters with the same logs, which grow step by step."""

    pipeline: Pipeline
    session: Any
    random: random.Random
    events: int = 0
    late: list[str] = field(default_factory=list)  # primaries that have not come yet
    names: tuple[str, ...] = ("east", "west")

    def verify(self, keep: bool = True, **how: Any) -> VerificationReport:
        from jobs.verification import verify

        return verify(self.pipeline, self.names, session=self.session, keep=keep, **how)

    def join(self, mode: Any = "until_idle") -> None:
        """Both at once, so that both have rows."""
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda name: run_shift(self.pipeline, name, mode, "local"), self.names))

    def table(self, datacenter: str, name: Any = "joined_events") -> DeltaTable:
        return OutputTable(self.pipeline.datacenters[datacenter].lake, name).load()

    def some_row(self) -> tuple[DeltaTable, str]:
        """The table of a datacenter, and the event of a row in it."""
        rows = [(name, row) for name in self.names for row in sorted(self.ids(name))]
        datacenter, row = self.random.choice(rows)
        return self.table(datacenter), row

    def ids(self, datacenter: str) -> list[str]:
        return [str(one) for one in self.table(datacenter).to_pyarrow_table()["_event_id"].to_pylist()]

    def append(self, file: str, header: str, lines: list[str]) -> None:
        for name in self.names:
            path = self.pipeline.datacenters[name].logs / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as log:
                log.write(("" if log.tell() else header + "\n") + "".join(line + "\n" for line in lines))

    # -- steps of a history

    def log_more(self) -> None:
        """Both logs grow; some primaries come late, never, or with another time."""
        primaries, foreign = [f"{key},100,late" for key in self.late], []
        self.late = []
        for _ in range(20):
            self.events += 1
            kind, key = self.random.choice(KINDS), f"q{self.events}"
            line = f"c{self.events},{key},{3600 * self.events},{kind}"
            foreign += [line, line.replace("again", "other")] if kind == "again" else [line]
            if kind == "bad":
                foreign.append(f"c{self.events},too few")
            if kind == "late":
                self.late.append(key)
            elif kind != "never":
                primaries.append(f"{key},100,{kind}")
        self.append(f"q{self.random.randrange(2)}.csv", "q,at,text", primaries)
        self.append(f"c{self.random.randrange(2)}.csv", "c,q,at,v", foreign)
        self.join()

    def give_up(self) -> None:
        """What waits is given up; the primary of some comes after all."""
        self.join("complete")

    def remove_row(self) -> None:
        table, row = self.some_row()
        table.delete(f"_event_id = '{row}'")

    def double_row(self) -> None:
        double_row(*self.some_row())

    def alter_row(self) -> None:
        table, row = self.some_row()
        table.update({"primary_text": "'forged'"}, predicate=f"_event_id = '{row}'")

    def move_row(self) -> None:
        table, row = self.some_row()
        table.update({"_occurrence": "'1:7'"}, predicate=f"_event_id = '{row}'")

    def mend_what_is_missing(self) -> None:
        recover(self.pipeline, {name: one.as_dict() for name, one in self.verify().datacenters.items()})
        self.join()

    def log_goes(self) -> None:
        (self.pipeline.datacenters["west"].logs / "c0.csv").unlink(missing_ok=True)

    def log_is_cut_short(self) -> None:
        path = self.pipeline.datacenters["east"].logs / "c1.csv"
        if path.exists():
            path.write_text(path.read_text()[:60])

    def state_is_lost(self) -> None:
        shutil.rmtree(self.pipeline.datacenters["west"].state)
        self.join()


Step = Callable[[World], None]
FAULTS: tuple[Step, ...] = (World.remove_row, World.double_row, World.alter_row, World.move_row)
STORY: tuple[Sequence[Step], ...] = (
    [World.log_more],
    [World.log_more, *FAULTS],
    [World.mend_what_is_missing, World.give_up],
    [World.log_more],  # with primaries of what was given up
    [World.log_is_cut_short, World.log_goes],
    [World.state_is_lost, World.alter_row],
)


@pytest.fixture
def world(session: Any, tmp_path: Path) -> World:
    module = f"odd_{uuid.uuid4().hex}"  # a process imports a module of one name once
    (tmp_path / f"{module}.py").write_text(ADAPTER)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("ADAPTER", module))
    for name in ("east", "west"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    pipeline = load_pipeline(tmp_path / "pipeline.yaml")
    prepare(pipeline)
    return World(pipeline, session, random.Random(0))


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


def read(report: VerificationReport) -> dict[str, int]:
    return {name: one.records_read for name, one in report.datacenters.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_beside_kept_results_a_verification_says_what_one_of_all_says(world: World, seed: int) -> None:
    world.random.seed(seed)
    for steps in STORY:
        for step in steps:
            step(world)
        print(f"seed {seed}: {[step.__name__ for step in steps]}")
        assert told(world.verify()) == told(world.verify(keep=False, anew=True)), steps


def test_what_is_settled_is_not_read_again_until_something_about_it_changes(world: World) -> None:
    world.log_more()
    world.join("complete")
    first = world.verify()
    assert first.ok, first.as_dict()
    assert all(count >= 20 for count in read(first).values())
    assert set(read(world.verify()).values()) <= {world_given_up(first, name) for name in world.names}
    table, row = world.some_row()
    table.delete(f"_event_id = '{row}'")
    found = world.verify()
    assert {e.event_id for one in found.datacenters.values() for e in one.violations[0].examples} == {row}
    assert all(count < 20 for count in read(found).values())


def world_given_up(report: VerificationReport, name: str) -> int:
    """What was given up when the inputs were complete is looked at each time: it may be taken up again."""
    return report.datacenters[name].classes.get("unjoinable", 0)


def test_windows_of_event_times_make_up_the_whole(world: World) -> None:
    world.log_more()
    world.join("complete")
    whole = world.verify()
    middle = 10 * HOUR_US
    parts = [world.verify(window=Window(start, end)) for start, end in ((0, middle), (middle, 100 * HOUR_US))]
    assert told(parts[0]) == told(world.verify(window=Window(0, middle), anew=True))
    for name, one in whole.datacenters.items():
        together = sum((Counter(part.datacenters[name].classes) for part in parts), Counter[str]())
        bad_lines = one.foreign - together.total()  # they have no time
        assert together + Counter(dead_letters=bad_lines) == Counter(one.classes)
        assert sum(part.datacenters[name].rows for part in parts) == one.rows
    assert all(part.rows > 0 for part in parts)


def test_each_fault_is_told_once_by_who_has_to_act_and_what_the_text_names_mends_it(world: World) -> None:
    from jobs.backfill import rebuild

    world.log_more()
    world.join("complete")
    assert world.verify().ok
    removed, doubled, altered = world.random.sample(sorted(world.ids("east") + world.ids("west")), 3)
    owner = {row: name for name in world.names for row in world.ids(name)}
    world.table(owner[removed]).delete(f"_event_id = '{removed}'")
    double_row(world.table(owner[doubled]), doubled)
    world.table(owner[altered]).update({"primary_text": "'forged'"}, predicate=f"_event_id = '{altered}'")
    first, again = world.verify(), world.verify()
    faults = {"missing": removed, "duplicate_rows": doubled, "different_values": altered}
    for name, finding in violations(first):
        assert (finding.count, finding.new, finding.number()) == (1, 1, "1"), (name, finding)
        assert [one.event_id for one in finding.examples] == [faults[finding.kind]]
    assert {finding.kind for _, finding in violations(first)} == set(faults)
    assert [(name, finding.kind) for name, finding in violations(again)] == [
        (name, finding.kind) for name, finding in violations(first)
    ]
    assert {finding.number() for _, finding in violations(again)} == {"1 (told before)"}

    told_by = {
        kind: {name: finding.acting for name, finding in violations(first) if finding.kind == kind}
        for kind in faults
    }
    assert told_by["missing"] == {name: {owner[removed]: 1} for name in world.names}
    assert report_text(again).count(f"    {owner[removed]} has to act: see there") == 1
    assert told_by["different_values"] == {owner[altered]: {owner[altered]: 1}}
    assert told_by["duplicate_rows"] == {owner[doubled]: {owner[doubled]: 1}}
    recover(world.pipeline, {name: one.as_dict() for name, one in again.datacenters.items()})
    world.join()
    for name in world.names:
        rebuild(world.pipeline, name, Window(0, 100 * HOUR_US), session=world.session)
    mended = world.verify()
    assert mended.ok, mended.as_dict()


def violations(report: VerificationReport) -> list[tuple[str, Finding]]:
    return [(name, finding) for name, one in report.datacenters.items() for finding in one.violations]


def test_nothing_kept_counts_after_a_change_of_the_adapter(world: World) -> None:
    world.log_more()
    first = read(world.verify())
    (adapter,) = world.pipeline.file.parent.glob("odd_*.py")
    adapter.write_text(adapter.read_text().replace("Drops", "Leaves out"))
    assert read(world.verify()) == first


def test_a_damaged_kept_file_costs_a_verification_of_all_and_nothing_else(world: World) -> None:
    world.log_more()
    first = world.verify()
    for path in kept_folder(world.pipeline, "east").glob("run-*/settled/*.parquet"):
        path.write_bytes(b"")
    again = world.verify()
    assert told(again) == told(first)
    assert read(again)["east"] == read(first)["east"] > read(again)["west"]
