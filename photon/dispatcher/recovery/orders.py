"""Work orders: records that recovery hands to a datacenter's dispatcher, to be looked at again (protocol E4).

An order is a file in the state folder. Anybody who can write there leaves one, and the dispatcher alone takes
it up. File numbers belong to an epoch, so an order is of one.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.process.errors import FormatTooNew
from photon.process.faults import fault_point
from photon.state.outcomes import OUTCOME_CLASSES, Counts, OutcomeClass
from photon.storage.store import content
from photon.storage.sync import in_place_of, remove_abandoned, sync, write_synced
from photon.storage.tokens import Occurrence, new_id

FOLDER = "orders"  # in a datacenter's state folder
SUFFIX, REFUSED = ".json", ".refused"
ORDER_FORMAT = 2  # 1 had no mended lines
MOST_RECORDS = 10_000  # in one order: it is read as a whole
# Classes that a record is taken out of, in this order, if its own class has none left.
_OTHER_CLASSES: Sequence[OutcomeClass] = [name for name in OUTCOME_CLASSES if name != "pending"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OrderedRecord:
    """A foreign record that is to be looked at again."""

    occurrence: Occurrence
    event_id: str
    counted_as: OutcomeClass  # the class that it leaves
    is_kept: bool = False  # given up under --complete: it is still among the waiting records
    mended: bytes | None = None  # the line that a person has put in the place of the log's (docs/adr/0047)


@dataclass(frozen=True)
class Order:
    """Records of one epoch, as they were found when its last completed batch was `completed`."""

    order_id: str
    epoch: str
    completed: int
    why: str
    records: Sequence[OrderedRecord]


def write_order(state: Path, epoch: str, completed: int, why: str, records: Sequence[OrderedRecord]) -> Order:
    """Leave an order for the dispatcher of this state folder, durably. OSError."""
    order = Order(new_id(), epoch, completed, why, tuple(records))
    text, folder = order_to_json(order).encode(), state / FOLDER
    folder.mkdir(exist_ok=True)
    remove_abandoned(folder)
    target = folder / f"{completed:010}-{order.order_id}{SUFFIX}"
    with in_place_of(target) as unfinished:
        write_synced(unfinished, content(text))
        fault_point("order.before_rename")
    sync(folder)
    fault_point("order.after_rename")
    return order


def order_to_json(order: Order) -> str:
    """The stored form."""
    stored = {
        "format": ORDER_FORMAT,
        "id": order.order_id,
        "epoch": order.epoch,
        "completed": order.completed,
        "why": order.why,
        "records": [_record_to_stored(record) for record in order.records],
    }
    return json.dumps(stored)


def _record_to_stored(record: OrderedRecord) -> list[Any]:
    mended = None if record.mended is None else b64encode(record.mended).decode()
    return [str(record.occurrence), record.event_id, record.counted_as, record.is_kept, mended]


def order_from_json(text: str) -> Order:
    """The inverse of `order_to_json`. FormatTooNew; ValueError, KeyError or TypeError for another text."""
    data = json.loads(text)
    if data["format"] > ORDER_FORMAT:
        raise FormatTooNew("the work order", data["format"], ORDER_FORMAT)
    records = []
    for place, event_id, counted_as, is_kept, *mended in data["records"]:
        if counted_as not in _OTHER_CLASSES:
            raise ValueError(f"{counted_as!r} is no class that a record leaves")
        line = b64decode(mended[0], validate=True) if mended and mended[0] is not None else None
        records.append(OrderedRecord(Occurrence.parse(place), event_id, counted_as, is_kept, line))
    return Order(data["id"], data["epoch"], data["completed"], data["why"], tuple(records))


def waiting_orders(state: Path) -> list[Path]:
    """The orders that nobody has taken up yet, the oldest first."""
    with suppress(FileNotFoundError):
        return sorted(path for path in (state / FOLDER).iterdir() if path.name.endswith(SUFFIX))
    return []


def orders_in(state: Path) -> Iterator[tuple[Order, int]]:
    """The orders that nobody has taken up yet, each with when it was written; for a look alone. OSError."""
    for path in waiting_orders(state):
        # One that can't be read is left to the dispatcher, which may take up each of them at any moment.
        with suppress(FileNotFoundError, FormatTooNew, ValueError, KeyError, TypeError):
            yield order_from_json(path.read_text()), path.stat().st_mtime_ns // 1_000


def already_ordered(state: Path, epoch: str) -> dict[Occurrence, str]:
    """The records of an epoch that an order has which nobody has taken up yet, with the order's id. OSError.

    Another order of them would come to nothing: only the first of the two is heeded (`still_open`).
    """
    return {
        record.occurrence: order.order_id
        for order, _ in orders_in(state)
        if order.epoch == epoch
        for record in order.records
    }


def read_order(path: Path) -> Order | None:
    """The order in this file; None if it holds none: then the file is set aside. OSError."""
    try:
        return order_from_json(path.read_text())
    except FileNotFoundError:
        return None
    except (FormatTooNew, ValueError, KeyError, TypeError) as error:
        log.warning("the work order %s can't be read, and is set aside: %s", path, error)
        path.replace(path.with_name(path.name + REFUSED))
        return None


def still_open(
    order: Order, epoch: str, ordered_at: Mapping[Occurrence, int], waits: Mapping[Occurrence, bool]
) -> tuple[list[OrderedRecord], list[OrderedRecord]]:
    """The records of an order that are to be looked at again, and those that are only to be woken.

    `ordered_at`: which batch was completed when a record was last taken up by order. What an order says of a
    record is out of date unless it was written after a later batch, so no order counts twice. `waits`: the
    records that are among the waiting ones, and whether they are given up there.
    """
    if order.epoch != epoch:
        return [], []
    again, woken = [], []
    for record in {record.occurrence: record for record in order.records}.values():
        if order.completed <= ordered_at.get(record.occurrence, -1):
            continue
        given_up = waits.get(record.occurrence)
        if given_up:
            woken.append(record)
        elif given_up is None and not record.is_kept:
            again.append(record)
    return again, woken


def leaves(records: Sequence[OrderedRecord], counts: Mapping[OutcomeClass, int]) -> dict[str, int]:
    """The increments of the classes that records leave: no class falls below nothing, and all leave one.

    A class is told from what is left of a record, so it may be another one than what was counted.
    """
    left: dict[OutcomeClass, int] = {name: counts.get(name, 0) for name in _OTHER_CLASSES}
    taken: dict[str, int] = {}
    events: set[str] = set()
    for record in sorted(records, key=lambda record: record.occurrence):
        others = ["duplicates", *_OTHER_CLASSES] if record.event_id in events else _OTHER_CLASSES
        events.add(record.event_id)
        classes: list[OutcomeClass] = [record.counted_as, *others]
        found = next((name for name in classes if left[name] > 0), record.counted_as)
        left[found] -= 1
        taken[found] = taken.get(found, 0) - 1
    return taken


def with_parts(leaving: Mapping[str, int], counts: Counts) -> dict[str, int]:
    """The increments with those of the parts of `duplicates` and of `joined`: these leave in proportion.

    Nobody knows which of the duplicates were conflicting, or which rows ambiguous; they are looked at again.
    """
    parts: Mapping[OutcomeClass, Mapping[str, int]] = {
        "duplicates": {"conflicting": counts.conflicting, "not_compared": counts.not_compared},
        "joined": {"ambiguous": counts.ambiguous},
    }
    lost = {
        name: -round(count * -leaving.get(whole, 0) / counts.of(whole))
        for whole, of_it in parts.items()
        for name, count in of_it.items()
        if counts.of(whole)
    }
    return {**leaving, **{name: less for name, less in lost.items() if less}}
