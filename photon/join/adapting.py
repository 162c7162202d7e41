"""Call adapters: load the user's own, check what it returns, isolate the events on which it fails."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.adapters import Adapted, Adapter, is_reserved, rows_without_columns
from photon.adapters.user_modules import load_module
from photon.join.deadline import call_deadline
from photon.logs.columns import ParsedColumns, parse_columns
from photon.logs.formats.line_formats import REASON_CHARACTERS, format_of, reader_of
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog, Log, PrimaryLog
from photon.process.errors import WrongUsage
from photon.state.failing import CallTally
from photon.storage.columns import fit

T = TypeVar("T")
Ints = npt.NDArray[np.int64]
# A careful call has this many records: seven halvings find the one that takes too long.
CAREFUL_ROWS = 64
# Seven calls that take too long leave a task time for the rest.
CAREFUL_SHARE = 1 / 20  # a call's share of the task's own deadline


class AdapterNotFound(WrongUsage):
    """The pipeline's `adapter` can't be had; the message says why and what was expected."""


class AdapterMisbehaved(Exception):
    """An adapter returned what it must not; the message says what and what was expected."""


@dataclass(frozen=True)
class RawRecords:
    """Records of one log as their files hold them, and the header lines of these files."""

    raws: pa.Array  # binary
    headers: Sequence[bytes]
    header_of: npt.NDArray[np.int64]  # for each record the place of its file's header among `headers`


@dataclass(frozen=True)
class Combined:
    """The outcome of pairs; every row index is in exactly one of `kept`, `filtered` and `failures`."""

    table: pa.Table  # one row for each of `kept`, in order
    kept: Ints
    filtered: Ints
    failures: dict[int, str] = field(default_factory=dict)  # reason by row
    tally: CallTally = field(default_factory=CallTally)  # counts the pairs that the adapter was asked about


@dataclass(frozen=True)
class Skipped:
    """Which foreign events the adapter passes over, and on which it failed. All others are looked up."""

    rows: list[int]
    failures: dict[int, str] = field(default_factory=dict)
    tally: CallTally = field(default_factory=CallTally)  # counts the events that the adapter was asked about


def adapter_of(pipeline: Pipeline) -> Adapter:
    """The pipeline's adapter, which knows the pipeline's prefix for primary columns. AdapterNotFound."""
    # On another machine the file has no folder, and its modules come with Photon's own (`jobs/cluster.py`).
    folder = pipeline.file.parent if pipeline.file.is_absolute() else None
    adapter = copy(load_adapter(pipeline.adapter, folder))
    object.__setattr__(adapter, "primary_prefix", pipeline.primary.prefix)  # the class may be frozen
    return adapter


def check_modules(pipeline: Pipeline) -> None:
    """The modules of users that a pipeline names can be had: AdapterNotFound, FormatNotFound."""
    adapter_of(pipeline)
    for log in (pipeline.primary, pipeline.foreign):
        reader_of(log)


def load_adapter(spec: str, folder: Path | None = None) -> Adapter:
    """Load the adapter `module:attribute`: an `Adapter`, or a subclass whose constructor takes no arguments.

    Also looks for modules in `folder` (the pipeline file's). AdapterNotFound says what is wrong.
    """
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise AdapterNotFound(f"adapter: expected module:attribute, got {spec!r}")
    module = load_module(module_name, folder, "adapter", AdapterNotFound)
    if not hasattr(module, attribute):
        raise AdapterNotFound(
            f"adapter {spec}: module {module_name} has no {attribute!r} (it is {module.__file__})"
        )
    found = getattr(module, attribute)
    if isinstance(found, type) and issubclass(found, Adapter):
        try:
            found = found()
        except Exception as error:
            raise AdapterNotFound(f"adapter {spec}: {attribute}() raised {error}") from error
    if not isinstance(found, Adapter):
        remedy = "; decorate it with photon.adapters.per_event" if callable(found) else ""
        raise AdapterNotFound(
            f"adapter {spec}: expected a photon.adapters.Adapter, got {type(found).__name__}{remedy}"
        )
    return found


class Alone(Adapter):
    """An adapter that joins each pair as if no other were there: that is its row (protocol A20)."""

    def __init__(self, adapter: Adapter, pipeline: Pipeline) -> None:
        self._adapter = adapter
        self._pipeline = pipeline

    def combine(self, foreign: pa.Table, primary: pa.Table) -> pa.Table | Adapted:
        """Combine one pair, without the columns that came from other records."""
        return self._adapter.combine(
            _own_columns(foreign, self._pipeline.foreign), _own_columns(primary, self._pipeline.primary)
        )


def _own_columns(record: pa.Table, log: Log) -> pa.Table:
    if reader_of(log) is None:  # a header names the columns of all records alike
        return record
    return record.select([n for n in record.column_names if n in log.columns or record[n].null_count == 0])


def pair_by_pair(adapter: Adapter, pipeline: Pipeline) -> Adapter:
    """The adapter as one that joins each pair alone. One of Photon's own does anyway."""
    return adapter if adapter.is_pairwise else Alone(adapter, pipeline)


class Careful(Adapter):
    """An adapter with a deadline for each call, of few records: those that take too long fail alone (A17)."""

    def __init__(self, adapter: Adapter, call_seconds: float) -> None:
        self._adapter = adapter
        self._call_seconds = call_seconds

    def skip(self, foreign: pa.Table) -> pa.BooleanArray | None:
        with call_deadline(self._call_seconds):
            return self._adapter.skip(foreign)

    def combine(self, foreign: pa.Table, primary: pa.Table) -> pa.Table | Adapted:
        with call_deadline(self._call_seconds):
            return self._adapter.combine(foreign, primary)


def adapt_pairs(
    adapter: Adapter, foreign: RawRecords, primary: RawRecords, pipeline: Pipeline, row_schema: pa.Schema
) -> Combined:
    """Combine pairs of raw records to rows that fit a table of `row_schema`. A bad pair fails alone."""
    foreign_columns = columns_of(foreign, pipeline.foreign)
    primary_columns = columns_of(primary, pipeline.primary)
    failures = {row: f"its primary: {reason}" for row, reason in primary_columns.failures.items()}
    failures |= foreign_columns.failures
    tables = foreign_columns.table, primary_columns.table
    if not failures:
        return combine_isolating_failures(adapter, *tables, row_schema)
    usable = np.delete(np.arange(len(foreign.raws)), list(failures))
    foreign_table, primary_table = (table.take(pa.array(usable)) for table in tables)
    combined = combine_isolating_failures(adapter, foreign_table, primary_table, row_schema)
    failures |= {int(usable[row]): reason for row, reason in combined.failures.items()}
    kept, filtered = usable[combined.kept], usable[combined.filtered]
    return Combined(combined.table, kept, filtered, failures, combined.tally)


def may_skip(adapter: Adapter) -> bool:
    """Whether an adapter may skip events. Events without a key are skipped in any case."""
    return type(adapter).skip is not Adapter.skip


def skip_records(adapter: Adapter, foreign: RawRecords, pipeline: Pipeline) -> Skipped:
    """Ask the adapter which foreign records to pass over. A bad record fails alone."""
    if not may_skip(adapter) or not len(foreign.raws):
        return Skipped([])
    columns = columns_of(foreign, pipeline.foreign)
    skipped = skip_isolating_failures(adapter, columns.table)
    rows = [row for row in skipped.rows if row not in columns.failures]
    return Skipped(rows, {**skipped.failures, **columns.failures}, skipped.tally)


def columns_of(records: RawRecords, log: PrimaryLog | ForeignLog) -> ParsedColumns:
    """The user's columns of records whose files may have different headers, in the records' order.

    A column that a record's file does not have is null.
    """
    distinct = sorted(set(records.headers))
    if not distinct:
        return ParsedColumns(pa.table({}), {})
    if len(distinct) == 1:
        return parse_columns(records.raws, distinct[0], log)
    header_of = np.array([distinct.index(header) for header in records.headers])[records.header_of]
    parts: list[pa.Table] = []
    failures: dict[int, str] = {}
    for number, header in enumerate(distinct):
        rows = np.flatnonzero(header_of == number)
        parsed = parse_columns(records.raws.take(pa.array(rows)), header, log)
        parts.append(parsed.table)
        failures.update({int(rows[row]): reason for row, reason in parsed.failures.items()})
    table = pa.concat_tables(parts, promote_options="default")
    place = np.argsort(np.argsort(header_of, kind="stable"))
    return ParsedColumns(table.take(pa.array(place)), failures)


def combine_isolating_failures(
    adapter: Adapter, foreign: pa.Table, primary: pa.Table, row_schema: pa.Schema
) -> Combined:
    """Combine row-aligned pairs; where the adapter raises or misbehaves, halve until only bad pairs are out.

    The rows get the names and types of a table of `row_schema`. A value that does not fit its column fails
    alone, like one on which the adapter raises. ValueError if the tables differ in length.
    """
    if foreign.num_rows != primary.num_rows:
        raise ValueError(f"{foreign.num_rows} foreign and {primary.num_rows} primary rows; expected pairs")

    schema = pa.schema([])
    tables: list[pa.Table] = []

    def combine(first: int, count: int) -> Adapted:
        nonlocal schema
        result = adapter.combine(foreign.slice(first, count), primary.slice(first, count))
        adapted = checked_rows(result, count, row_schema)
        if adapted.table.num_rows:  # rows must also fit into one table with those before them
            unified = pa.unify_schemas([schema, adapted.table.schema], promote_options="permissive")
            retyped = tables if any(unified.field(field.name) != field for field in schema) else []
            _in_one_table([*retyped, adapted.table], unified)
            schema = unified
            tables.append(adapted.table)
        return adapted

    parts, failures = isolate(combine, foreign.num_rows, _most_at_once(adapter))
    nobody = np.empty(0, np.int64)
    masks = [(first, part.kept.to_numpy(zero_copy_only=False)) for first, part in parts]
    kept = np.concatenate([nobody, *(first + np.flatnonzero(mask) for first, mask in masks)])
    filtered = np.concatenate([nobody, *(first + np.flatnonzero(~mask) for first, mask in masks)])
    table = _in_one_table(tables, schema) if schema.names else rows_without_columns(len(kept))
    return Combined(table, kept, filtered, failures, tally_of(foreign.num_rows, failures))


def _in_one_table(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of all, in order. ArrowInvalid for a value that the schema's type can't hold exactly."""
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="permissive")


def skip_isolating_failures(adapter: Adapter, foreign: pa.Table) -> Skipped:
    """Ask the adapter which events to pass over; where it raises, halve down to the bad ones."""

    def skip(first: int, count: int) -> pa.BooleanArray | None:
        mask = adapter.skip(foreign.slice(first, count))
        return None if mask is None else checked_mask(mask, count, "skip")

    parts, failures = isolate(skip, foreign.num_rows, _most_at_once(adapter))
    rows = [first + row for first, mask in parts if mask for row, yes in enumerate(mask.to_pylist()) if yes]
    return Skipped(rows, failures, tally_of(foreign.num_rows, failures))


def tally_of(asked: int, failures: Mapping[int, str]) -> CallTally:
    """Count the failures of rows, and name that of the first row."""
    return CallTally(asked, len(failures), failures[min(failures)] if failures else "")


def _most_at_once(adapter: Adapter) -> int | None:
    if isinstance(adapter, Alone):
        return 1
    return CAREFUL_ROWS if isinstance(adapter, Careful) else None


def isolate(
    call: Callable[[int, int], T], rows: int, most_at_once: int | None = None
) -> tuple[list[tuple[int, T]], dict[int, str]]:
    """`call(first, count)` for all rows, in halves where it raises, down to single rows.

    The results, each with its first row, in order, and the reason for each row on which it raised alone.
    """
    results: list[tuple[int, T]] = []
    failures: dict[int, str] = {}
    step = most_at_once or max(rows, 1)
    todo = [(first, min(step, rows - first)) for first in range(0, rows, step)][::-1]
    while todo:
        first, count = todo.pop()
        try:
            results.append((first, call(first, count)))
        except (Exception, SystemExit) as error:  # or Spark's worker would end with the adapter
            if count == 1:
                failures[first] = f"adapter: {type(error).__name__}: {error}"[:REASON_CHARACTERS]
            else:
                half = count // 2
                todo += [(first + half, count - half), (first, half)]
    return results, failures


def checked_rows(result: pa.Table | Adapted, pairs: int, row_schema: pa.Schema) -> Adapted:
    """Check what `combine` returned and fit it to `row_schema`. AdapterMisbehaved."""
    if isinstance(result, pa.Table):
        result = Adapted(result, pa.array([True] * pairs, pa.bool_()))
    if not isinstance(result, Adapted) or not isinstance(result.table, pa.Table):
        what = type(result).__name__
        raise AdapterMisbehaved(f"combine returned {what}; expected a pyarrow.Table or Adapted")
    kept = checked_mask(result.kept, pairs, "Adapted.kept")
    table = fit(result.table, row_schema)
    if table.num_rows != kept.true_count:
        raise AdapterMisbehaved(
            f"combine returned {table.num_rows} rows for {pairs} pairs; it keeps {kept.true_count}"
        )
    check_names(table.column_names)
    return Adapted(table, kept)


def checked_mask(mask: object, rows: int, what: str) -> pa.BooleanArray:
    """A mask of one boolean a row, without nulls; else AdapterMisbehaved."""
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    if not isinstance(mask, pa.BooleanArray) or len(mask) != rows or mask.null_count:
        got = f"a {type(mask).__name__}"
        if isinstance(mask, pa.Array):
            got = f"{len(mask)} values of {mask.type} with {mask.null_count} nulls"
        raise AdapterMisbehaved(f"{what}: expected {rows} booleans without nulls, got {got}")
    return mask


def check_names(names: Sequence[str]) -> None:
    """Raise AdapterMisbehaved for a reserved name. `fit` has made all names different."""
    for name in names:
        if is_reserved(name):
            raise AdapterMisbehaved(f"combine returned column {name!r}, which is Photon's own; rename it")


def fingerprint(pipeline: Pipeline, *more: object) -> str:
    """Hash all that a row depends on besides its two records: the adapter, how columns are read, and `more`.

    Adapter and formats of users count with the modules that name and define them. Modules that these import
    do not.
    """
    named: list[tuple[str, object]] = [(pipeline.adapter, adapter_of(pipeline))]
    named += [(log.format, form) for log in (pipeline.primary, pipeline.foreign) if (form := format_of(log))]
    names = [name for spec, made in named for name in (spec.partition(":")[0], type(made).__module__)]
    modules = [sys.modules[name] for name in names]
    sources = {inspect.getsourcefile(module) for module in modules if getattr(module, "__file__", None)}
    settings = {side: getattr(pipeline, side).model_dump(mode="json") for side in ("primary", "foreign")}
    parts = [
        json.dumps([pipeline.adapter, settings], sort_keys=True).encode(),
        *(Path(source).read_bytes() for source in sorted(filter(None, sources))),
        *(repr(each).encode() for each in more),
    ]
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).hexdigest()
