"""The foreign records of one join unit, and the events that they are occurrences of.

Turns what was read into columns that the joiner works on, and groups records by the identity of
their event (protocol A9, C4). What becomes of them is decided in `photon.join.joiner`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from photon.logs.files import LogFile
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import ForeignLog
from photon.tokens import Occurrence


@dataclass(frozen=True)
class Records:
    """Foreign records, column by column; row i of each list is record i."""

    occurrences: list[Occurrence]
    raws: list[bytes]
    ids: list[str]
    keys: list[str | None]
    times_us: list[int]
    attempts: list[int]
    first_seen_us: list[int]
    final: list[bool]
    is_retry: list[bool]
    recorded: list[bool]  # the table of unjoined events has it already

    def __len__(self) -> int:
        return len(self.ids)


def records_of(fresh: pa.Table, waiting: pa.Table, now_us: int, final: bool) -> Records:
    """Records read for the first time, then those that waited (`photon.join.spool`)."""
    fresh_count, waiting_count = fresh.num_rows, waiting.num_rows

    def column(name: str) -> list[Any]:
        return [*fresh[name].to_pylist(), *waiting[name].to_pylist()]

    files, offsets = column("_file"), column("_offset")
    return Records(
        occurrences=[Occurrence(number, offset) for number, offset in zip(files, offsets, strict=True)],
        raws=column("_raw"),
        ids=column("_id"),
        keys=column("_key"),
        times_us=column("_time_us"),
        attempts=[0] * fresh_count + waiting["attempts"].to_pylist(),
        first_seen_us=[now_us] * fresh_count + waiting["first_seen_us"].to_pylist(),
        final=[final] * fresh_count + [final or due for due in waiting["final"].to_pylist()],
        is_retry=[False] * fresh_count + [True] * waiting_count,
        recorded=[False] * fresh_count + waiting["recorded"].to_pylist(),
    )


def by_event(records: Records, indices: Sequence[int], log: ForeignLog) -> dict[EventKey, list[int]]:
    """Records by the event that they are occurrences of; the smallest occurrence first (protocol A9).

    That one's time is the event's, also where it is no part of the identity.
    """

    def key_of(index: int) -> EventKey:
        return event_key(records.ids[index], records.times_us[index], log)

    groups: dict[EventKey, list[int]] = defaultdict(list)
    for index in indices:
        groups[key_of(index)].append(index)
    for group in groups.values():
        group.sort(key=lambda index: records.occurrences[index])
    return {key_of(group[0]): group for group in groups.values()}


def headers_by_file(files: Iterable[LogFile]) -> Mapping[int, bytes]:
    """Each file's header line, by its number."""
    return {file.number: file.header for file in files}
