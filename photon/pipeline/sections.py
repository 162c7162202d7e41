"""The sections of the pipeline file: every key with its default, but for those of the file itself.

A field whose name is not its key says in its name the unit that the key leaves to the value.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from photon.adapters import PRIMARY_PREFIX
from photon.pipeline.location import Location, S3Folder
from photon.pipeline.values import (
    LONGEST,
    AdapterName,
    BatchSize,
    ColumnPrefix,
    Columns,
    ColumnType,
    Comment,
    Cron,
    Delimiter,
    Duration,
    Encoding,
    Folder,
    Format,
    Glob,
    Header,
    IdCodec,
    IdTimeUnit,
    LogDuration,
    ObjectsPattern,
    Place,
    PositiveDuration,
    Quote,
    Settings,
    Share,
    StoreUrl,
    SubFolder,
    TimeColumns,
    TimeFormats,
    TimeUnit,
    UnmatchedColumns,
    Url,
    Whole,
    ZoneName,
)

WORK_IN_LAKE = "_photon"


def _endpoint_count(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    if len(value) not in (1, 3, 5):
        raise ValueError("`local`, or 1, 3 or 5 endpoints")
    if len({endpoint.url.rstrip("/").lower() for endpoint in value}) < len(value):
        raise ValueError("endpoints with different URLs: each is to be a store of its own")
    return value


def _keyed(key: str, default: Any, **bounds: int) -> Any:
    """Make a field whose name says more than its key in the file."""
    return Field(default=default, validation_alias=key, **bounds)  # type: ignore[call-overload]


class Strict(BaseModel):
    """Every model of the file: immutable, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True)


class Storage(Strict):
    """How a datacenter reaches S3, beside boto3's credentials, which are in no file of Photon."""

    endpoint_url: Url | None = None  # None: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS itself
    region: str | None = None  # None: as boto3 finds it


class KafkaTopicSettings(Strict):
    """A topic of a Kafka broker, and how it is reached."""

    servers: Annotated[str, Field(min_length=1)]  # host:port, with commas between
    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    settings: Settings = Field(default_factory=dict)  # librdkafka's own, such as security.protocol


class Land(Strict):
    """A source, a topic or objects, that `photon land` writes into a folder of a datacenter's logs."""

    kafka: KafkaTopicSettings | None = None
    objects: ObjectsPattern | None = None
    into: SubFolder


class Datacenter(Strict):
    """Where one datacenter has its full copy of the logs, its tables and its dispatcher's state."""

    storage: Storage = Storage()  # before logs and lake, which are read with it
    logs: Place
    lake: Place
    state: Folder
    # Index segments and waiting records. None: with the state, or with a lake that is on S3.
    work: Place | None = None
    land: tuple[Land, ...] = ()  # topics and objects that become logs

    @property
    def work_place(self) -> Location:
        """The folder of index segments and waiting records; each epoch has a folder in it."""
        if self.work is not None:
            return self.work
        return self.lake / WORK_IN_LAKE if isinstance(self.lake, S3Folder) else self.state

    def work_of(self, epoch: str) -> Location:
        """The folder of index segments and waiting records of one epoch."""
        is_shared = self.work is None and not isinstance(self.lake, S3Folder)
        return self.state if is_shared else self.work_place / epoch


class Spark(Strict):
    """Where tasks run."""

    master: str | None = Field(default=None, min_length=1)  # None: on the cores of this machine
    settings: Settings = Field(default_factory=dict)  # Spark's own, before those that Photon makes


class Log(Strict):
    """The keys that both kinds of log have."""

    files: Glob
    format: Format
    id: Columns
    time: TimeColumns  # one, or that of the day and that of the time of day
    time_unit: TimeUnit = "s"
    time_format: TimeFormats = ()  # strptime takes them; no other text is a time then
    time_zone: ZoneName | None = None  # counts where a time names no zone; None: UTC
    columns: dict[str, ColumnType] = Field(default_factory=dict)  # undeclared columns are text
    id_codec: IdCodec | None = None  # ids that carry their time
    id_time_unit: IdTimeUnit = "us"
    # The keys from here on are for CSV and TSV alone.
    delimiter: Delimiter | None = None  # None: a comma, or a tab
    quote: Quote | None = None  # None: double quotes in CSV, none in TSV
    escape: Delimiter | None = None
    header: Header = ()  # the columns, for files without a header line
    comment: Comment | None = None  # lines that begin with it are no records
    encoding: Encoding = "utf-8"
    _folder: Path | None = None

    def model_post_init(self, context: Any) -> None:
        self._folder = context

    @property
    def folder(self) -> Path | None:
        """The pipeline file's folder, where a user's `format` may lie; None: there is no file."""
        return self._folder

    def without_folder(self) -> Self:
        """The same log for a machine where the pipeline file has no folder."""
        copied = self.model_copy()
        copied._folder = None
        return copied


class PrimaryLog(Log):
    """The log that is waited for: queries, impressions, requests."""

    prefix: ColumnPrefix = PRIMARY_PREFIX  # stands before the names of primary columns in rows
    # Up to when it is read: by the times in its files, or as the marker of the folder says that is fed.
    watermark: Literal["times", "feed"] = "times"

    def fed_folder(self, logs: Location) -> Location | None:
        """The folder below `logs` that `photon follow --to` feeds; None: no feed writes this log."""
        if self.watermark != "feed":
            return None
        folder = logs
        for name in PurePosixPath(self.files).parent.parts:
            folder = folder / name
        return folder


class ForeignLog(Log):
    """The log whose every event names its primary: clicks, conversions, responses."""

    key: Columns


class Endpoint(Strict):
    """One store of the registry, spoken to with the DynamoDB API."""

    url: StoreUrl
    region: str = "local"
    profile: str | None = Field(default=None, min_length=1)  # named in AWS's configuration files
    role: str | None = Field(default=None, pattern=r"^arn:[^:]+:iam::\d{12}:role/.+$")  # to assume by STS


Endpoints = Annotated[
    Annotated[Literal["local"], Tag("local")] | Annotated[tuple[Endpoint, ...], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "local"),
    AfterValidator(_endpoint_count),
]


class Durations(Strict):
    """From when on something is a warning, and an error."""

    warn: PositiveDuration
    error: PositiveDuration


class StateReport(Strict):
    """When the state of the registry is reported."""

    cron: Cron = "57 * * * *"  # when Dagster looks, in UTC: after gc


class Gc(Strict):
    """When gc drops ids older than `registry.keep_days`."""

    cron: Cron = "47 3 * * *"  # when Dagster runs gc, in UTC: half an hour after a verification


class Resharding(Strict):
    """Whether to propose another number of ledgers, or to put it in force, and when."""

    policy: Literal["off", "propose", "apply"] = "propose"
    cron: Cron = "27 4 * * *"  # when Dagster looks, in UTC


class Registry(Strict):
    """The IdRegistry: where it is and how it is laid out."""

    endpoints: Endpoints = "local"
    keep_days: Whole | None = Field(default=None, ge=1, le=LONGEST.days)
    # A call that does not get on for so long, retries included, finds the registry unavailable.
    total_timeout: PositiveDuration = _keyed("deadline", timedelta(seconds=10))
    state: StateReport = StateReport()
    collection: Gc = Gc()
    resharding: Resharding = Resharding()


class Retry(Strict):
    """When to look again for a missing primary, and when to give up."""

    unjoinable_after: Duration = timedelta(hours=24)
    allowed_lateness: Duration = timedelta(minutes=1)
    lookup_window: PositiveDuration | None = None  # None: in all of the log that is indexed (protocol C7)

    @property
    def expects_reused_ids(self) -> bool:
        """Whether ids that are used again are no alarm by themselves: a window tells their uses apart."""
        return self.lookup_window is not None


class Home(Strict):
    """How long an event is left to its home datacenter before the others take it up."""

    takeover_delay: Duration = timedelta(seconds=2)


class Recovery(Strict):
    """When what was registered and not joined, or went missing, is joined after all."""

    # A datacenter counts as dead if it holds events and gives no sign of life for this long.
    silent_after: PositiveDuration = timedelta(seconds=30)
    cron: Cron = "25 * * * *"  # when Dagster recovers, in UTC: after verification, before gc


class Limits(Strict):
    """A bound on everything that could grow."""

    line_bytes: BatchSize = _keyed("line", 2**20)  # a longer line is a dead letter
    # A batch takes sixteen times as much of primary logs.
    batch_foreign_bytes: BatchSize = _keyed("batch_foreign", 16 * 2**20)
    batch_events: Whole = Field(default=200_000, ge=1)  # foreign events and retries of one batch
    pending_events: Whole = Field(default=2_000_000, ge=1)  # at the bound, tailing of foreign logs pauses
    workers: Whole | None = Field(default=None, ge=1)  # tasks at once; None: one for each core
    # A task that takes longer is ended.
    task_timeout: PositiveDuration = timedelta(minutes=5)


class Tailing(Strict):
    """How log folders are watched."""

    poll_interval: PositiveDuration = timedelta(milliseconds=100)
    idle_after: PositiveDuration = timedelta(minutes=5)  # a file idle for longer does not hold the watermark
    links_lead_out: bool = False  # of a logs folder: else any file that the join's user may read can be a log


class Verification(Strict):
    """How the join is verified."""

    cron: Cron = "17 * * * *"  # when Dagster verifies, in UTC


class Availability(Strict):
    """The promise: of the events of a minute this share is readable so soon, in this share of the minutes."""

    within: PositiveDuration = timedelta(seconds=5)  # after the moment when both events had come
    of_events: Share = 0.999  # "99.9 % complete up to" goes by it too
    of_minutes: Share = 0.99  # counted over 28 days; the others are the error budget


class Backfill(Strict):
    """How rows of some days are made again beside live joins."""

    first_day: date = date(2026, 1, 1)  # Dagster shows days of `daily_joins` from this one on, in UTC
    # So many days that closed before the sensor of closed days looks for the first time are verified too.
    first_look_days: Whole = Field(default=7, ge=0, le=366)


class Compaction(Strict):
    """How tables are kept fit beside live joins."""

    cron: Cron = "*/5 * * * *"  # when Dagster compacts, in UTC: some 900 commits of a live datacenter
    # Commits stay in a table's log, for those who follow it; then they are archived for a week.
    keep_log: LogDuration = timedelta(minutes=5)


class Releases(Strict):
    """Snapshots of all tables together, for readers (docs/operations/upkeep.md)."""

    every: PositiveDuration = timedelta(seconds=30)
    keep: PositiveDuration = timedelta(days=7)  # so long a release can be read, and old data files stay


# Columns that rows of unmatched primaries have anyway, in lower case.
UNMATCHED_COLUMNS = (
    "_datacenter",
    "_epoch",
    "_batch",
    "_plan",
    "_occurrence",
    "primary_id",
    "primary_time",
    "reason",
    "conflicting",
)


class Unmatched(Strict):
    """When a primary event that nothing was joined with is called unmatched, and what its row has."""

    after: PositiveDuration = timedelta(hours=24)  # beyond the primary's own time
    columns: UnmatchedColumns = ()  # of the primary log, beside id and time


class Shares(Strict):
    """The shares of all records from which on something is a warning, and an error."""

    warn: Share
    error: Share


class Health(Strict):
    """From when on a datacenter is not well: what Dagster's checks of `health` go by."""

    lag: Durations = Durations(warn=timedelta(minutes=1), error=timedelta(minutes=10))
    dead_letters: Shares = Shares(warn=0.001, error=0.05)  # shares of the records of either log
    unjoinable: Shares = Shares(warn=0.2, error=0.9)
    # No shift has reported for so long, whatever the reason: Dagster's freshness policy.
    stale: Durations = Durations(warn=timedelta(hours=6), error=timedelta(days=1))


class Alerts(Strict):
    """Who is told of failed checks, failed runs, failed ticks and stale assets."""

    hook: AdapterName | None = None  # a function of an Alert, also of a module beside the file


class Shift(Strict):
    """How Dagster's runs of one datacenter follow one another."""

    length: PositiveDuration = timedelta(minutes=30)  # then a successor may take over
    # A shift that has nothing to do for this long ends.
    idle_timeout: PositiveDuration = _keyed("idle", timedelta(minutes=2))
