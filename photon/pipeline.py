"""The pipeline file: what it may say, with its defaults, and how it is read.

Models of every key of the file (design, section 6), and `load_pipeline`, which refuses what is
wrong with file, line, key and what was expected. What the keys make the engine do belongs to
the parts that read them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_DURATION_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_duration(value: object) -> timedelta:
    """`250ms`, `1.5s`, `1m`, `24h`, `7d` as a timedelta; ValueError says what was expected."""
    if isinstance(value, timedelta):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)\s*", str(value))
    if not match:
        raise ValueError("a duration: a number and one of us, ms, s, m, h, d, such as 250ms")
    return timedelta(seconds=float(match[1]) * _DURATION_UNITS[match[2]])


def parse_size(value: object) -> int:
    """`64MiB`, `4KiB`, `100B` or a whole number of bytes; ValueError says what was expected."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*(B|KiB|MiB|GiB)\s*", str(value))
    if not match:
        raise ValueError("a size: a whole number and one of B, KiB, MiB, GiB, such as 64MiB")
    return int(match[1]) * _SIZE_UNITS[match[2]]


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]
Columns = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]
Format = Literal["csv", "tsv", "jsonl"]
TimeUnit = Literal["s", "ms", "us", "ns", "iso8601"]
ColumnType = Literal["string", "int64", "float64", "bool", "timestamp_us", "date", "binary"]


class Strict(BaseModel):
    """Every model of the file: immutable, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Datacenter(Strict):
    """Where one datacenter has its full copy of the logs, its tables and its dispatcher's state."""

    logs: Path
    lake: Path
    state: Path


class Log(Strict):
    """What both kinds of log have in common."""

    files: str
    format: Format
    id: Columns
    time: str
    time_unit: TimeUnit = "s"
    columns: dict[str, ColumnType] = Field(default_factory=dict)  # undeclared columns are text
    id_codec: Literal["server_process_timestamp"] | None = None  # ids that carry their time
    id_time_unit: Literal["s", "ms", "us", "ns"] = "us"


class PrimaryLog(Log):
    """The log that is waited for: queries, impressions, requests."""


class ForeignLog(Log):
    """The log whose every event names its primary: clicks, conversions, responses."""

    key: Columns
    time_in_id: bool = False  # (time, id) together are the identity of an event


class Endpoint(Strict):
    """One store of the registry, spoken to with the DynamoDB API."""

    url: str
    region: str = "local"


class Registry(Strict):
    """The IdRegistry: where it is and how it is laid out."""

    endpoints: Literal["local"] | tuple[Endpoint, ...] = "local"
    shards: int = Field(default=16, ge=1, le=65_536)
    keep_days: int | None = Field(default=None, ge=1)
    request_timeout: Duration = timedelta(seconds=2)
    deadline: Duration = timedelta(seconds=10)  # of one call, retries included: then unavailable or unknown
    concurrency: int = Field(default=8, ge=1, le=64)  # requests at once, per task
    horizon_step: Duration = timedelta(days=1)


class Retry(Strict):
    """When a foreign event whose primary is not there yet is looked at again, and when no more."""

    first_delay: Duration = timedelta(milliseconds=250)
    max_delay: Duration = timedelta(minutes=1)
    unjoinable_after: Duration = timedelta(hours=24)
    min_attempts: int = Field(default=8, ge=1)
    allowed_lateness: Duration = timedelta(minutes=1)
    lookup_window: Duration = timedelta(minutes=10)


class Home(Strict):
    """How long an event is left to its home datacenter before the others take it up."""

    takeover_delay: Duration = timedelta(seconds=2)
    quiet_after: Duration = timedelta(seconds=30)  # nothing registered for so long: no delay


class Limits(Strict):
    """A bound on everything that could grow."""

    line: Size = 2**20  # a longer line is a dead letter
    batch_primary: Size = 64 * 2**20
    batch_foreign: Size = 16 * 2**20
    batch_events: int = Field(default=200_000, ge=1)  # foreign events and retries of one batch
    file_quantum: Size = 2**20  # the least that each growing file is served before any gets more
    pending_events: int = Field(default=2_000_000, ge=1)  # at the bound, tailing of foreign logs pauses
    quarantined_in_a_row: int = Field(default=20, ge=1)  # more of them: it is not the events
    columns: int = Field(default=1_000, ge=1)  # a record with more columns is a dead letter


class EventStoreSettings(Strict):
    """The CacheEventStore and the log file map."""

    cache_memory: Size = 256 * 2**20  # of one datacenter, all tasks together
    filter_memory: Size = 64 * 2**20  # the log file map's filters held in memory, of each task process
    entry_bytes: Size = 256 * 2**10  # one entry of the log file map covers at most this much of a file
    entry_span: Duration = timedelta(seconds=60)  # and at most this much time


class Tailing(Strict):
    """How log folders are watched."""

    poll_interval: Duration = timedelta(milliseconds=100)
    idle_after: Duration = timedelta(minutes=5)  # a file idle for longer does not hold the watermark
    gzip_check: Size = 32 * 2**20  # decompressed in one look, to see which gzip files are whole


class Pipeline(Strict):
    """One pipeline: everything else (commands, Dagster, tests) reads it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")
    file: Path = Field(exclude=True)
    datacenters: dict[str, Datacenter] = Field(min_length=1)
    primary: PrimaryLog
    foreign: ForeignLog
    adapter: str = "photon.adapters:merge_columns"
    registry: Registry = Registry()
    retry: Retry = Retry()
    home: Home = Home()
    limits: Limits = Limits()
    event_store: EventStoreSettings = EventStoreSettings()
    tailing: Tailing = Tailing()
    # After the state was lost: foreign logs from the start (what is registered loses), or from now on.
    new_epoch_reads_from: Literal["start", "now"] = "start"

    @property
    def registry_folder(self) -> Path:
        """Where the local registry (`endpoints: local`) has its data."""
        return self.file.parent / "state" / "registry"


class PipelineError(Exception):
    """A pipeline file that can't be used: every problem with its file, line, key and what was expected."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline that the file at `path` describes; PipelineError with all that is wrong with it."""
    raise NotImplementedError


def identity_settings(pipeline: Pipeline) -> dict[str, object]:
    """What decides the ids and times of events; a registry serves only one such setting (protocol B9)."""
    raise NotImplementedError


def settings_hash(pipeline: Pipeline) -> str:
    """A hash (sha256, hex) of `identity_settings`."""
    raise NotImplementedError
