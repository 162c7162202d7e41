"""A world in one process: log folders on disk, real Delta tables, the product's own dispatcher and joiner.

Three things differ from the product: the clock moves when told to, the registry's stores are in memory, and
a crash is an exception that nobody catches.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from photon.dispatcher.dispatcher import Mode
from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.ending import NO_LIMITS, ShiftLimits
from photon.dispatcher.shift.run import Engine, ShiftResult
from photon.event_store import logs as event_store
from photon.join.messages import BatchRunner
from photon.join.tasks import LocalRunner
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.values import Format
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Claims, Epoch, Hashes
from photon.registry.epochs import begin_epoch
from photon.registry.fold import are_among
from photon.registry.hashing import hashes_of
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import first_register
from photon.registry.register import Members
from photon.state.database import StateReader
from photon.state.outcomes import Counts
from photon.storage.columns import TableName
from photon.storage.tables import OutputTable
from photon.tracing.report import Trace
from photon.tracing.trace import trace
from tests.simulation import log_lines
from tests.simulation.reading import asking
from tests.support.crashes import crash_at
from tests.support.manual_clock import ManualClock
from tests.support.memory_ledgers import MemoryLedgers, memory_registry
from tests.support.shifts import shift_in_turn

NOON_US = 1_700_000_000_000_000

PIPELINE = """
name: searches
datacenters:
{datacenters}
primary: {{files: "queries/*.{format}", format: {format}, id: query, time: at, time_unit: us}}
foreign: {{files: "clicks/*.{format}", format: {format}, id: click, key: query, time: at, time_unit: us}}
{more}
"""


def hashed(*event_ids: str) -> Hashes:
    """The hashes by which ledgers know these events."""
    return hashes_of(pa.array(event_ids, pa.string()))


def assert_counts(counts: Counts, because: str = "", **expected: int) -> None:
    """Hold some of the counts, by name, against what is expected."""
    found = {name: counts.as_dict()[name] for name in expected}
    assert found == expected, f"{because or 'the counts differ'}: {found}, expected {expected}"


class World:
    """One pipeline, its datacenters and their registry."""

    def __init__(
        self,
        folder: Path,
        datacenters: Sequence[str] = ("east",),
        more: str = "",
        format_: Format = "jsonl",
    ) -> None:
        self.folder = folder
        lines = "\n".join(f"  {name}: {{logs: logs/{name}}}" for name in datacenters)
        path = folder / "pipeline.yaml"
        path.write_text(PIPELINE.format(datacenters=lines, more=more, format=format_))
        for name in datacenters:
            for kind in ("queries", "clicks"):
                (folder / "logs" / name / kind).mkdir(parents=True)
        self.use(load_pipeline(path))

    @classmethod
    def of(cls, pipeline_file: Path) -> World:
        """A world of a pipeline and logs that are there already."""
        world = cls.__new__(cls)
        world.folder = pipeline_file.parent
        world.use(load_pipeline(pipeline_file))
        return world

    def use(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.clock = ManualClock(NOON_US)
        self._numbers = count(1)
        self.ledgers = MemoryLedgers()
        self.ledgers.decided.register = first_register(pipeline, Members(1, ("memory",)))

    # -- logs

    def log(self, datacenter: str, kind: str, *records: dict[str, Any] | str, file: str = "a.jsonl") -> None:
        """Append records (or lines as they are) to a log file, whose name ends as its format does."""
        format_ = self.format_of(kind)
        name = file.removesuffix(".jsonl") + f".{format_}" if file.endswith(".jsonl") else file
        log_lines.append(self.folder / "logs" / datacenter / kind / name, format_, records)

    def format_of(self, kind: str) -> Format:
        return self.pipeline.primary.format if kind == "queries" else self.pipeline.foreign.format

    def records(self, datacenter: str, kind: str) -> list[dict[str, Any]]:
        """The records of all files of a log, as they are now."""
        files = sorted((self.folder / "logs" / datacenter / kind).iterdir())
        return [record for file in files for record in log_lines.records_in(file, self.format_of(kind))]

    def queries(
        self, *ids: str, datacenter: str = "east", at_us: int = NOON_US, file: str = "a.jsonl"
    ) -> None:
        self.log(
            datacenter,
            "queries",
            *({"query": i, "at": at_us, "text": f"text of {i}"} for i in ids),
            file=file,
        )

    def clicks(
        self,
        *pairs: tuple[str, str | None],
        datacenter: str = "east",
        at_us: int = NOON_US,
        file: str = "a.jsonl",
    ) -> None:
        """Clicks as (click id, query id)."""
        self.log(datacenter, "clicks", *({"click": c, "query": q, "at": at_us} for c, q in pairs), file=file)

    def events(self, *clicks: str, query: str = "q1", datacenter: str = "east") -> None:
        """Log a query, and clicks that name it."""
        self.queries(query, datacenter=datacenter)
        self.clicks(*((click, query) for click in clicks), datacenter=datacenter)

    def everywhere(self, *clicks: str, query: str = "q1") -> None:
        """Log a query and its clicks in each datacenter."""
        for name in self.pipeline.datacenters:
            self.events(*clicks, query=query, datacenter=name)

    # -- running

    def join(
        self,
        datacenter: str = "east",
        mode: Mode = "until_idle",
        callbacks: Callbacks | None = None,
        runner: Engine | BatchRunner | None = None,
        limits: ShiftLimits | None = None,
    ) -> ShiftResult:
        """Run a shift in this process, and check that the classes of records add up."""
        runner, limits = runner or LocalRunner(self.clock), limits or NO_LIMITS
        shift = shift_in_turn(self.pipeline, datacenter, self.clock, self.ledgers, callbacks, runner, limits)
        result = shift.run(mode)
        assert result.counts.adds_up, f"the classes don't add up: {result.counts.as_dict()}"
        return result

    def join_and_mend(
        self, mend: Callable[[], object], runner: BatchRunner | None = None, datacenter: str = "east"
    ) -> list[str]:
        """Run a shift that has to wait until `mend` is done; return the reasons that it gave."""
        said: list[str] = []

        def on_wait(reason: str) -> None:
            said.append(reason)
            mend()

        self.join(datacenter, callbacks=Callbacks(on_wait=on_wait), runner=runner)
        return said

    def join_with_a_crash(self, spec: str, datacenter: str = "east", mode: Mode = "until_idle") -> bool:
        """Run a shift that dies at a fault point, and say whether it came to that."""
        with crash_at(spec) as crash:
            self.join(datacenter, mode)
        if crash.has_happened:
            self.forget()
        return crash.has_happened

    def forget(self) -> None:
        """Lose what a process has in memory: it dies with the process."""
        event_store._segments.clear()
        event_store._log_files = None

    # -- the registry

    def reader(self) -> IdRegistry:
        """The registry with a view of its own, read to its ends."""
        registry = memory_registry(self.ledgers, f"reader {next(self._numbers)}")
        registry.catch_up()
        return registry

    def claim(self, claimant: Claimant, *event_ids: str, at_us: int = NOON_US) -> None:
        """Have a plan claim these events, as another process does."""
        many = len(event_ids)
        places = (np.zeros(many, np.uint32), np.arange(many, dtype=np.int64))
        self.reader().claim(Claims(claimant, hashed(*event_ids), np.full(many, at_us), *places))

    def registered_elsewhere(self, *event_ids: str, is_closed: bool = True) -> Claimant:
        """West has claimed the events in the next batch of its first epoch, and closed it."""
        epoch = Epoch("west", 1)
        claimant = Claimant(epoch, self.reader().view.closed_through(epoch) + 1, "p")
        if "west" in self.pipeline.datacenters and not self.ledgers.register.epochs.get("west"):
            begin_epoch(self.reader(), "west", 0, "table")
        self.claim(claimant, *event_ids)
        if is_closed:
            self.close(claimant)
        return claimant

    def close(self, claimant: Claimant, *without_rows: str) -> None:
        """Have a batch closed, of which these events have no row."""
        missing = hashed(*without_rows)
        closing = Closing(claimant.epoch, claimant.batch, lambda _, one: are_among(one.hashes, missing))
        self.reader().close(closing)

    def holders(self, *event_ids: str) -> dict[str, Claimant]:
        """The plans that hold these events, by event."""
        found = self.reader().holders(hashed(*event_ids))
        return {
            event_ids[index]: claimant
            for at, claimant in found.claimants.items()
            for index in found.refs.are(*at).nonzero()[0].tolist()
        }

    def free(self, *event_ids: str) -> None:
        """Have nobody hold these events that were joined."""
        self.reader().free(hashed(*event_ids), lambda claimant: True)

    def holder(self, event_id: str) -> Claimant | None:
        """The plan that holds an event."""
        return self.holders(event_id).get(event_id)

    def is_join(self, event_id: str) -> bool:
        """Say whether the event is held, and its batch closed."""
        return bool(self.reader().holders(hashed(event_id)).are_joins[0])

    # -- what came of it

    def table(self, datacenter: str = "east") -> OutputTable:
        """The joined events of a datacenter."""
        return OutputTable(self.pipeline.datacenters[datacenter].lake, "joined_events")

    def rows(self, table: TableName = "joined_events") -> list[dict[str, Any]]:
        """The rows of all datacenters' tables."""
        found: list[dict[str, Any]] = []
        for place in self.pipeline.datacenters.values():
            if OutputTable(place.lake, table).exists():
                found += DeltaTable(str(place.lake / table)).to_pyarrow_table().to_pylist()
        return found

    def joined_ids(self) -> list[str]:
        """The event ids of all joined rows, sorted; an id joined twice is there twice."""
        return sorted(row["_event_id"] for row in self.rows())

    def trace(self, event_id: str, search_logs: bool = True) -> Trace:
        """Trace an event, with this world's registry."""
        with asking(self):
            return trace(self.pipeline, event_id, search_logs)

    def state(self, datacenter: str = "east") -> Path:
        return self.pipeline.datacenters[datacenter].state

    def read_state(self, datacenter: str = "east") -> StateReader:
        return StateReader(self.state(datacenter))

    def state_of(self, datacenter: str) -> AbstractContextManager[StateReader]:
        """The state at this moment, to be closed."""
        return closing(self.read_state(datacenter))

    def copy_state(self, datacenter: str = "east") -> Callable[[], None]:
        """Copy the state folder, and return the function that puts the copy back."""
        copy = self.folder / f"copy-of-{datacenter}"
        shutil.copytree(self.state(datacenter), copy)

        def put_back() -> None:
            shutil.rmtree(self.state(datacenter))
            shutil.copytree(copy, self.state(datacenter))

        return put_back
