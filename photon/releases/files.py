"""The rows of a release in a table that has gone on: which files have only such rows, and which also others.

Bounds of `_epoch` are text, of which "10" is less than "9": so they tell something only of a file of one
epoch. Whatever bounds do not tell is left to the rows, by one condition that says the same in each engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from photon.adapters import DATE_COLUMN
from photon.pipeline.location import Location
from photon.releases.release import Place
from photon.storage.columns import TableName, text
from photon.storage.data_files import DataFile, pages_of_rows
from photon.storage.replaced_files import Replacement
from photon.storage.store import ObjectStore

COUNTED = pa.schema([("_batch", pa.int64())])
COUNTED_AT_ONCE = 2**17
Share = Literal["whole", "partial", "none"]


@dataclass(frozen=True)
class ReleaseFiles:
    """The files of one table of one datacenter that have rows of a release.

    `whole`: all their rows are in it. `partial`: those that match `condition`. `schema`: the table's columns
    now; files may lack some, and none has the column of its date.
    """

    datacenter: str
    table: TableName
    folder: Location
    place: Place
    schema: pa.Schema
    whole: tuple[DataFile, ...]
    partial: tuple[DataFile, ...]

    @property
    def condition(self) -> ds.Expression:
        """The rows that count in a partial file, for pyarrow."""
        return condition(self.place)

    @property
    def sql_condition(self) -> str:
        """The same in SQL."""
        return sql_condition(self.place)


def share_of(file: DataFile, place: Place) -> Share:
    """Which of a file's rows lie up to a place, as far as bounds tell. A row without an epoch never does."""
    if file.epoch is None or not file.epoch.isdecimal():
        return "partial"
    if (epoch := int(file.epoch)) > place.epoch:
        return "none"
    if epoch < place.epoch:
        return "whole" if file.epoch_nulls == 0 else "partial"
    if file.first_batch is not None and file.first_batch > place.batch:
        return "none"
    if file.last_batch is None or file.last_batch > place.batch:
        return "partial"
    return "whole" if file.epoch_nulls == file.batch_nulls == 0 else "partial"


def shares(files: Iterable[DataFile], place: Place) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """The whole files and the partial ones."""
    by_share: dict[Share, list[DataFile]] = {"whole": [], "partial": [], "none": []}
    for file in files:
        by_share[share_of(file, place)].append(file)
    return tuple(by_share["whole"]), tuple(by_share["partial"])


def shares_between(
    files: Iterable[DataFile], after: Place, up_to: Place
) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """The files that have only rows behind one place and up to another, and those that have others too."""
    some = [file for file in files if share_of(file, after) != "whole"]
    whole, partial = shares(some, up_to)
    within = tuple(file for file in whole if share_of(file, after) == "none")
    return within, (*partial, *(file for file in whole if share_of(file, after) == "partial"))


def condition(place: Place) -> ds.Expression:
    """Whether a row lies up to a place, for pyarrow. No number is made of text: it may be none."""
    is_in_last = (text("_epoch") == str(place.epoch)) & (ds.field("_batch") <= place.batch)
    return text("_epoch").isin(pa.array(_earlier(place), pa.string())) | is_in_last


def condition_between(after: Place, up_to: Place) -> ds.Expression:
    """Whether a row lies behind one place and up to another; a row without a batch is behind none."""
    is_before = pc.if_else(pc.is_valid(condition(after)), condition(after), False)
    return condition(up_to) & ~is_before


def sql_condition(place: Place) -> str:
    """The same in SQL, as DuckDB and Spark read it."""
    earlier = ", ".join(f"'{name}'" for name in _earlier(place))
    is_earlier = f"_epoch IN ({earlier}) OR " if earlier else ""
    return f"({is_earlier}(_epoch = '{place.epoch}' AND _batch <= {place.batch}))"


def _earlier(place: Place) -> list[str]:
    """The epochs before it, whose rows all count."""
    return [str(number) for number in range(1, place.epoch)]


def rows_within(store: ObjectStore, files: Iterable[DataFile], place: Place) -> int:
    """How many rows of these files lie up to a place, by the log, else by the rows themselves. OSError."""
    whole, partial = shares(files, place)
    counted = [*partial, *(file for file in whole if file.rows is None)]
    found = pages_of_rows(store, counted, COUNTED, condition(place), COUNTED_AT_ONCE)
    return sum(file.rows or 0 for file in whole) + sum(int(page.num_rows) for page in found)


def guarantee(datacenter: str, file: DataFile, schema: pa.Schema) -> ds.Expression:
    """All that is known of each row of a file: by it pyarrow drops a filter, or the file."""
    known = ds.field("_datacenter") == datacenter
    if DATE_COLUMN in schema.names:
        day = ds.field(DATE_COLUMN)
        known &= day.is_null() if file.date is None else day == pa.scalar(file.date, pa.date32())
    if file.epoch is not None and file.epoch_nulls == 0:
        known &= ds.field("_epoch") == file.epoch
    if file.first_batch is not None and file.last_batch is not None and file.batch_nulls == 0:
        known &= (ds.field("_batch") >= file.first_batch) & (ds.field("_batch") <= file.last_batch)
    return known


def before(files: Mapping[str, DataFile], replacement: Replacement) -> dict[str, DataFile]:
    """The files of a table, by path, as they were before a replacement that was its last one."""
    came = set(replacement.came)
    left = {path: file for path, file in files.items() if path not in came}
    return left | {file.path: file for file in replacement.went}
