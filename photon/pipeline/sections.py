"""The sections of the pipeline file: every key with its default, but for those of the file itself.

A field whose name is not its key says in its name the unit that the key leaves to the value.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated, Any, Literal

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
    HookDuration,
    IdCodec,
    IdTimeUnit,
    LogDuration,
    Place,
    PositiveDuration,
    Quote,
    Settings,
    Share,
    Size,
    StoreUrl,
    TimeFormats,
    TimeUnit,
    Url,
    Whole,
    ZoneName,
)

LISTED_FOLDERS = 16
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
    """A field whose name says more than its key in the file."""
    return Field(default=default, validation_alias=key, **bounds)  # type: ignore[call-overload]


class Strict(BaseModel):
    """Every model of the file: immutable, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True)


class Storage(Strict):
    """How a datacenter reaches S3, beside boto3's credentials, which are in no file of Photon."""

    endpoint_url: Url | None = None  # None: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS itself
    region: str | None = None  # None: as boto3 finds it
    notifications: bool = True  # listen to what a MinIO tells of new objects of logs


class Datacenter(Strict):
    """Where one datacenter has its full copy of the logs, its tables and its dispatcher's state."""

    storage: Storage = Storage()  # before those that it says how to reach
    logs: Place
    lake: Place
    state: Folder
    # Index segments and waiting records. None: with the state, or with a lake that is on S3.
    work: Place | None = None

    @property
    def work_place(self) -> Location:
        """Where tasks find what they need beside logs and tables: of all epochs, and below it of each."""
        if self.work is not None:
            return self.work
        return self.lake / WORK_IN_LAKE if isinstance(self.lake, S3Folder) else self.state

    def work_of(self, epoch: str) -> Location:
        """Where tasks find what an epoch needs beside logs and tables."""
        is_shared = self.work is None and not isinstance(self.lake, S3Folder)
        return self.state if is_shared else self.work_place / epoch


class Spark(Strict):
    """Where tasks run."""

    master: str | None = Field(default=None, min_length=1)  # None: on the cores of this machine
    settings: Settings = Field(default_factory=dict)  # Spark's own, before those that Photon makes


class Log(Strict):
    """What both kinds of log have in common."""

    files: Glob
    format: Format
    id: Columns
    time: str
    time_unit: TimeUnit = "s"
    time_format: TimeFormats = ()  # of strptime; then nothing else is a time
    time_zone: ZoneName | None = None  # of times that name none; None: UTC
    columns: dict[str, ColumnType] = Field(default_factory=dict)  # undeclared columns are text
    id_codec: IdCodec | None = None  # ids that carry their time
    id_time_unit: IdTimeUnit = "us"
    # Of CSV and TSV alone.
    delimiter: Delimiter | None = None  # None: a comma, or a tab
    quote: Quote | None = None  # None: double quotes in CSV, none in TSV
    escape: Delimiter | None = None
    header: Header = ()  # the columns, for files without a header line
    comment: Comment | None = None  # what lines that are no records begin with
    encoding: Encoding = "utf-8"
    record_lines: Whole = Field(default=100, ge=1)  # of one record, at most; 1: no value holds a line end


class PrimaryLog(Log):
    """The log that is waited for: queries, impressions, requests."""

    prefix: ColumnPrefix = PRIMARY_PREFIX  # of its columns in joined rows


class ForeignLog(Log):
    """The log whose every event names its primary: clicks, conversions, responses."""

    key: Columns


class Endpoint(Strict):
    """One store of the registry, spoken to with the DynamoDB API."""

    url: StoreUrl
    region: str = "local"
    profile: str | None = Field(default=None, min_length=1)  # of AWS's configuration files
    role: str | None = Field(default=None, pattern=r"^arn:[^:]+:iam::\d{12}:role/.+$")  # to assume by STS


LocalServerName = Literal["dynoxide", "dynamodb-local"]

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
    # Nobody has looked for so long: the freshness policy of `registry_state`.
    stale: Durations = Durations(warn=timedelta(hours=3), error=timedelta(days=1))


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
    # Serves `endpoints: local`. None: dynoxide, or DynamoDB Local on a machine that dynoxide is not made for.
    local_server: LocalServerName | None = None
    keep_days: Whole | None = Field(default=None, ge=1, le=LONGEST.days)
    request_timeout: PositiveDuration = timedelta(seconds=2)
    # Without getting on, retries included; then the registry is unavailable.
    total_timeout: PositiveDuration = _keyed("deadline", timedelta(seconds=10))
    # Requests at once to each endpoint, of each process: one a ledger, and pages of entries that are read.
    concurrent_requests: Whole = _keyed("concurrency", 16, ge=1, le=256)
    # Entries of a generation of ledgers, before gc begins the next one: it drops only whole ones. Some 40
    # million ids; of a small registry that much stays behind the boundary.
    generation_bytes: Size = _keyed("generation", 2**30)
    state: StateReport = StateReport()
    collection: Gc = Gc()
    resharding: Resharding = Resharding()


class Retry(Strict):
    """When to look again for a missing primary, and when to give up."""

    first_delay: PositiveDuration = timedelta(milliseconds=250)
    max_delay: PositiveDuration = timedelta(hours=1)  # a primary that comes wakes its events at once
    unjoinable_after: Duration = timedelta(hours=24)
    min_attempts: Whole = Field(default=8, ge=1)
    allowed_lateness: Duration = timedelta(minutes=1)
    clock_tolerance: Duration = timedelta(minutes=5)  # a time further ahead says nothing of the watermark
    lookup_window: PositiveDuration | None = None  # None: in all of the log that is indexed (protocol C7)


class Home(Strict):
    """How long an event is left to its home datacenter before the others take it up."""

    takeover_delay: Duration = timedelta(seconds=2)
    quiet_after: Duration = timedelta(seconds=30)  # nothing registered for this long: no delay
    # So many of its events in a row were left to it in vain: no delay either.
    quiet_after_events: Whole = Field(default=20, ge=1)


class Recovery(Strict):
    """When what was registered and not joined, or went missing, is joined after all."""

    # An open batch of it gives no sign of life for this long, while events of it are held.
    silent_after: PositiveDuration = timedelta(seconds=30)
    lake_timeout: PositiveDuration = timedelta(seconds=10)  # the joins here wait so long for its lake, once
    cron: Cron = "25 * * * *"  # when Dagster recovers, in UTC: after verification, before gc


class Limits(Strict):
    """A bound on everything that could grow."""

    line_bytes: BatchSize = _keyed("line", 2**20)  # a longer line is a dead letter
    batch_primary_bytes: BatchSize = _keyed("batch_primary", 256 * 2**20)
    batch_foreign_bytes: BatchSize = _keyed("batch_foreign", 16 * 2**20)
    batch_events: Whole = Field(default=200_000, ge=1)  # foreign events and retries of one batch
    # The same while another datacenter has joined what is read: the registry has time for its live events.
    catch_up_events: Whole = Field(default=5_000, ge=1)
    pending_events: Whole = Field(default=2_000_000, ge=1)  # at the bound, tailing of foreign logs pauses
    workers: Whole | None = Field(default=None, ge=1)  # tasks at once; None: one for each core
    columns: Whole = Field(default=1_000, ge=1)  # a record with more columns is a dead letter
    # The adapter may fail on this share of a batch's pairs, if those are at least so many.
    failing_pairs: Share = 0.5
    failing_pairs_least: Whole = Field(default=100, ge=1)
    # A task that takes longer is ended. Half of `shift.stuck`: a batch has two stages of tasks.
    task_timeout: PositiveDuration = timedelta(minutes=5)


class Tailing(Strict):
    """How log folders are watched."""

    poll_interval: PositiveDuration = timedelta(milliseconds=100)
    idle_after: PositiveDuration = timedelta(minutes=5)  # a file idle for longer does not hold the watermark
    # Of one log on S3, that are listed and can't be read: the others go on. If there are more, all wait.
    unreadable_objects: Whole = Field(default=16, ge=0)
    # Folders of a bucket of which a look lists what came behind the last name: as many requests.
    listed_folders: Whole = Field(default=LISTED_FOLDERS, ge=2)


class Verification(Strict):
    """How the join is verified."""

    examples: Whole = Field(default=10, ge=1)  # of each kind of finding, in a report
    piece_bytes: BatchSize = _keyed("piece", 32 * 2**20)  # a task reads a log file in pieces of this size
    # So much of logs and tables is verified without Spark, in the command's own process.
    local_bytes: Size = _keyed("without_spark", 64 * 2**20)
    cron: Cron = "17 * * * *"  # when Dagster verifies, in UTC
    anew_after: PositiveDuration = timedelta(days=7)  # kept results count so long; then all is read again
    copies_after: Duration = timedelta(minutes=15)  # an event may come into one copy so much later


class Completeness(Strict):
    """What is told of how complete the rows are."""

    of_events: Share = 0.999  # "99.9 % complete up to"
    every: PositiveDuration = timedelta(seconds=10)  # so often it is said anew, while batches are joined
    keep: PositiveDuration = timedelta(days=1)  # of event time: what the share is of


class Availability(Strict):
    """The promise: of the events of a minute this share is readable so soon, in this share of the minutes."""

    within: PositiveDuration = timedelta(seconds=5)  # of the moment when both events had come
    of_events: Share = 0.999
    of_minutes: Share = 0.99  # of 28 days: the others are the error budget
    keep_timeline: PositiveDuration = timedelta(days=3)  # what a datacenter notes of when its logs grew


class Backfill(Strict):
    """How rows of some days are made again beside live joins."""

    page_rows: Whole = Field(default=1_000_000, ge=1)  # of one commit; a file that has more is one alone
    piece_rows: Whole = Field(default=100_000, ge=1)  # of one task, which holds them in memory
    workers: Whole = Field(default=1, ge=1)  # tasks at once
    niceness: Whole = Field(default=10, ge=0, le=19)  # how much its process yields to others
    # While the datacenter's joins are further behind, no page is begun.
    pause_lag: PositiveDuration = timedelta(seconds=30)
    first_day: date = date(2026, 1, 1)  # of the partitions that Dagster shows of `daily_joins`, in UTC
    # So many days that closed before the sensor of closed days looks for the first time are verified too.
    first_look_days: Whole = Field(default=7, ge=0, le=366)
    # No day of any datacenter was closed for so long: the freshness policy of `daily_joins`.
    stale: Durations = Durations(warn=timedelta(hours=36), error=timedelta(days=3))


class Compaction(Strict):
    """How tables are kept fit beside live joins."""

    cron: Cron = "*/5 * * * *"  # when Dagster compacts, in UTC: some 900 commits of a live datacenter
    file_bytes: BatchSize = _keyed("file", 64 * 2**20)  # small files become one of about this size
    least_files: Whole = Field(default=8, ge=2)  # fewer stay as they are
    # Commits stay in a table's log, for those who follow it; then they are archived for a week.
    keep_log: LogDuration = timedelta(minutes=5)


class Sizes(Strict):
    """From when on something is a warning, and an error, of bytes."""

    warn: Size
    error: Size


class Shares(Strict):
    """The same, of all records."""

    warn: Share
    error: Share


class Health(Strict):
    """From when on a datacenter is not well: what Dagster's checks of `health` go by."""

    # It has work, and nobody is at it. A shift that is killed is replaced within some 20 s.
    standing_still: Durations = Durations(warn=timedelta(seconds=30), error=timedelta(seconds=45))
    # Its process waits for what is unavailable. A hiccup of the registry is over within seconds.
    waiting: Durations = Durations(warn=timedelta(seconds=30), error=timedelta(minutes=1))
    lag: Durations = Durations(warn=timedelta(minutes=1), error=timedelta(minutes=10))
    backlog: Sizes = Sizes(warn=2**30, error=2**34)  # unread bytes of its logs
    dead_letters: Shares = Shares(warn=0.001, error=0.05)  # of the records of the window, of either log
    unjoinable: Shares = Shares(warn=0.2, error=0.9)
    conflicting: Shares = Shares(warn=0.001, error=0.05)  # of the foreign records
    clock_skew: Durations = Durations(warn=timedelta(seconds=5), error=timedelta(minutes=1))
    unverified: Durations = Durations(warn=timedelta(hours=3), error=timedelta(days=1))
    # Of the bytes a second that AWS writes of one key range: each ledger is one.
    ledger_load: Shares = Shares(warn=0.8, error=1.0)
    # An endpoint of the registry is not well, and fewer than so many more may go down: an error.
    spare_endpoints: Whole = Field(default=1, ge=0)
    window: PositiveDuration = timedelta(hours=1)  # shares are of the records of the last one or two
    least_records: Whole = Field(default=100, ge=1)  # a share of fewer says nothing
    # No shift has reported for so long, whatever the reason: Dagster's freshness policy.
    stale: Durations = Durations(warn=timedelta(hours=6), error=timedelta(days=1))
    # What still goes on is told again after this time, with its numbers of then.
    tell_again: PositiveDuration = timedelta(minutes=5)


class Alerts(Strict):
    """Who is told of failed checks, failed runs, failed ticks and stale assets."""

    hook: AdapterName | None = None  # a function of an Alert, also of a module beside the file
    # What still goes on is told again after this time. Dagster's checks have `health.tell_again`.
    tell_again: PositiveDuration = timedelta(hours=1)
    call_timeout: HookDuration = timedelta(seconds=20)


class Shift(Strict):
    """How Dagster's runs of one datacenter follow one another."""

    length: PositiveDuration = timedelta(minutes=30)  # then a successor may take over
    # A run has this long to load the code, open its session and wait for the lock: it takes 15 s, or 60 s on
    # a busy machine.
    start_timeout: PositiveDuration = _keyed("start", timedelta(minutes=2))
    # Nothing to do for this long: the shift ends.
    idle_timeout: PositiveDuration = _keyed("idle", timedelta(minutes=2))
    # No sign of life for this long: the shift is replaced.
    lease_duration: PositiveDuration = _keyed("lease", timedelta(seconds=10))
    # No progress for this long: it gives no sign of life.
    stuck_after: PositiveDuration = _keyed("stuck", timedelta(minutes=10))
    # Between two materializations of one shift.
    report_interval: PositiveDuration = _keyed("report", timedelta(minutes=1))
