"""Plan batches: how much each holds, which waiting records, how work that can't end is split (A11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from zlib import crc32

import numpy as np
import numpy.typing as npt

from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.formats.records import RecordRules
from photon.logs.ranges import RangeGone, read_range
from photon.pipeline.location import Location
from photon.pipeline.sections import Limits, Retry
from photon.process.clock import microseconds
from photon.state.lifecycle import Attempts
from photon.state.plan import Plan, PlanContent
from photon.state.waiting import retries as retrying
from photon.state.waiting.retries import Retries
from photon.state.waiting.waiting_view import WaitingView

LEAST_PRIMARY_BYTES = 64 * 2**20  # a core indexes them in 0.6 s
LEAST_FOREIGN_BYTES = 2**18  # some hundred events, so that live ones come through while primaries are behind
PRIMARY_LINES_PER_EVENT = 10  # a primary event is indexed in a tenth of the time that a foreign one takes
# Foreign events of a batch while another datacenter has joined what is read: what is asked of the registry
# at once keeps that one's live events waiting.
CATCH_UP_EVENTS = 5_000
CATCH_UP_EVENT_BYTES = 2**8  # a longer one counts as several: files are cut by bytes
# A batch may take so many times `limits.batch_foreign` of primary bytes: a record is indexed in a tenth of
# the time that a foreign one takes, and nothing of it is held but 32 bytes.
PRIMARY_BYTES_PER_FOREIGN = 16
BACKLOG_SHARE = 4  # a batch takes this part of the primary logs that wait, within bounds
# Lookups before a record may be given up, without the last one. Where joins run, waits of an eighth of
# `retry.unjoinable_after` see to more; after a long stop it is looked for again before the last lookup. More
# would add half a minute then, for waits double from a quarter of a second.
MIN_ATTEMPTS = 2


def primary_budget_bytes(limits: Limits, backlog_bytes: int) -> int:
    """How many bytes of primary logs the next batch takes.

    A batch costs a fifth of a second beside its work, and live events wait while it runs: so it grows
    with the backlog.
    """
    most_bytes = limits.batch_foreign_bytes * PRIMARY_BYTES_PER_FOREIGN
    return min(most_bytes, max(LEAST_PRIMARY_BYTES, backlog_bytes // BACKLOG_SHARE))


def paced(limits: Limits, is_behind_others: bool, is_complete: bool) -> Limits:
    """The limits of the next batch: smaller while another datacenter has joined what is read here.

    Then nobody waits for these events, and what is asked of the registry at once keeps live ones waiting.
    Declared-complete inputs have no live events.
    """
    if not is_behind_others or is_complete:
        return limits
    events = min(limits.batch_events, CATCH_UP_EVENTS)
    foreign_bytes = min(limits.batch_foreign_bytes, events * CATCH_UP_EVENT_BYTES)
    return limits.model_copy(update={"batch_events": events, "batch_foreign_bytes": foreign_bytes})


def most_primary_lines(limits: Limits) -> int:
    """How many primary events the next batch takes at most: an index task holds 32 bytes of each."""
    return limits.batch_events * PRIMARY_LINES_PER_EVENT


def foreign_share_bytes(primary_bytes: int, primary_backlog: int, foreign_backlog: int) -> int:
    """How many bytes of foreign logs go with so many of primary ones, while these are behind.

    The same part of both: an event that is read before its primary waits, and is looked for again.
    """
    if primary_backlog <= primary_bytes:
        return foreign_backlog
    return max(LEAST_FOREIGN_BYTES, foreign_backlog * primary_bytes // primary_backlog)


def budget(limits: Limits, due_retries: int, waiting: int, hold_foreign: bool = False) -> tuple[int, int]:
    """How many bytes of foreign logs, and how many retries, the next batch may take.

    Due retries get at most half of the batch's events while there are logs to read, so that
    neither starves the other. When the store of retries is full, foreign logs pause: nothing is dropped.
    `hold_foreign`: primary logs are read first (declared-complete inputs, protocol D4).
    """
    if hold_foreign or waiting >= limits.pending_events:
        return 0, min(due_retries, limits.batch_events)
    return limits.batch_foreign_bytes, min(due_retries, max(limits.batch_events // 2, 1))


def split(
    plan: Plan,
    reason: str,
    files: Mapping[int, TrackedFile],
    logs: Location,
    rules_of: Callable[[LogFile], RecordRules | None] = lambda file: None,
) -> list[PlanContent]:
    """The work of an abandoned plan in two halves; a single record goes to quarantine, for `reason`.

    `rules_of` has those of files whose records may have several lines.
    """
    lineage = plan.content.lineage.after(plan.as_origin, reason)
    content = replace(plan.content, lineage=lineage, attempts=Attempts())
    parts = halves(content)
    if len(parts) > 1:
        return parts
    ranges = (*content.primary, *content.foreign)
    cut = []
    if ranges and ranges[0].lines > 1:
        file = files[ranges[0].file_number].file
        cut = _cut(ranges[0], file, logs, rules_of(file))
    if cut and content.primary:
        return [replace(content, primary=(part,)) for part in cut]
    if cut:
        return [replace(content, foreign=(part,)) for part in cut]
    return [replace(content, lineage=replace(lineage, is_one_record=True))]


def halves(content: PlanContent) -> list[PlanContent]:
    """The content as two of half the items; one item stays whole."""
    items = len(content.primary) + len(content.foreign) + retrying.count(content.retries)
    if items < 2:
        return [content]
    return [_items(content, 0, items // 2), _items(content, items // 2, items)]


def _items(content: PlanContent, start: int, end: int) -> PlanContent:
    """The content with its items from `start` to `end` alone."""
    primaries, foreigns = len(content.primary), len(content.foreign)
    return replace(
        content,
        primary=content.primary[start:end],
        foreign=content.foreign[max(start - primaries, 0) : max(end - primaries, 0)],
        retries=retrying.part(content.retries, start - primaries - foreigns, end - primaries - foreigns),
    )


def _cut(byte_range: ByteRange, file: LogFile, logs: Location, rules: RecordRules | None) -> list[ByteRange]:
    """A range as two of whole records; none if its bytes are gone or it can't be cut."""
    try:
        data = read_range(logs, file, byte_range)
    except RangeGone:
        return []
    middle = _middle_of_lines(data) if rules is None else _middle_of_records(data, rules)
    if middle in (0, len(data)):
        return []
    head, tail = data[:middle], data[middle:]
    at, whole = byte_range.start_bytes + middle, replace(byte_range, unchecked_bytes=0)
    first = replace(
        whole, end_bytes=at, checksum=crc32(head), lines=_lines(head), ends_inside_oversized=False
    )
    second = replace(
        whole, start_bytes=at, checksum=crc32(tail), lines=_lines(tail), starts_inside_oversized=False
    )
    return [first, second]


def _middle_of_lines(data: bytes) -> int:
    middle = data.find(b"\n", len(data) // 2) + 1
    return data.rfind(b"\n", 0, len(data) // 2) + 1 if middle in (0, len(data)) else middle


def _middle_of_records(data: bytes, rules: RecordRules) -> int:
    ends = rules.cut(data, at_end=True).ends[:-1].tolist()
    return min(ends, key=lambda end: abs(end - len(data) // 2), default=0)


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))


def due_retries(
    waiting: WaitingView, now_us: int, most: int, watermark_us: int | None, retry: Retry
) -> tuple[Retries, ...]:
    """At most so many of the records that are due, and for which of them it is the last lookup."""
    chosen = []
    for index, rows in waiting.due(now_us, most):
        records = index.records.take(rows)
        names = ("attempts", "first_seen_us", "primary_time_us", "_file", "_offset")
        attempts, first_seen_us, primary_us, files, offsets_bytes = (
            records[name].to_numpy() for name in names
        )
        finals = may_be_given_up(attempts, first_seen_us, primary_us, now_us, watermark_us, retry)
        chosen.append(Retries.of(index.name, rows, files, offsets_bytes, finals))
    return tuple(chosen)


def may_be_given_up(
    attempts: npt.NDArray[np.integer],
    first_seen_us: npt.NDArray[np.int64],
    primary_time_us: npt.NDArray[np.int64],
    now_us: int,
    watermark_us: int | None,
    retry: Retry,
) -> npt.NDArray[np.bool_]:
    """Whether one last lookup may decide that each event is unjoinable (protocol C5).

    Tried often enough, first *seen* long enough ago (its own time may be last year's), and this
    datacenter has read its primary logs past the primary's time by the allowed lateness.
    """
    if watermark_us is None:
        return np.zeros(len(attempts), bool)
    tried: npt.NDArray[np.bool_] = attempts >= MIN_ATTEMPTS
    waited = now_us - first_seen_us >= microseconds(retry.unjoinable_after)
    passed = watermark_us >= primary_time_us + microseconds(retry.allowed_lateness)
    return tried & waited & passed
