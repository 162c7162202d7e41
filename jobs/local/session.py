"""A session of this process: where frames come from, and where queries run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.func import FunctionNullHandling, PythonUDFType
from xxhash import xxh64_intdigest

from photon.jobs.local.columns import TYPES, quoted
from photon.jobs.local.frames import LocalFrame
from photon.pipeline.location import Location
from photon.storage.damaged_files import damaged
from photon.storage.delta import lake_errors
from photon.storage.store import store_of
from photon.storage.store_errors import tells_of_damage

_SEED = 42  # Spark's


def xxhash64(text: str | None) -> int:
    """The hash of a text's UTF-8, as a signed number; of null the seed."""
    if text is None:
        return _SEED
    found: int = xxh64_intdigest(text.encode(), _SEED)
    return found - 2**64 if found >= 2**63 else found


class LocalSession:
    """Runs queries in memory. `lakes`: the folders of files that are read, by datacenter. Of one thread."""

    def __init__(self, lakes: Mapping[str, Location], batch_rows: int) -> None:
        self._lakes, self._batch_rows = lakes, batch_rows
        self._numbers = itertools.count()
        self._tables: dict[str, pa.Table] = {}
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.create_function(
            "xxhash64",
            _hashes,
            ["VARCHAR"],
            "BIGINT",
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )

    def __enter__(self) -> LocalSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._database.close()

    # -- frames

    def createDataFrame(
        self, rows: pa.Table | Sequence[Sequence[object]], schema: pa.Schema | str
    ) -> LocalFrame:
        """A frame of rows; `schema`: of Arrow, or as in `name string, file int`."""
        of = _parsed(schema) if isinstance(schema, str) else schema
        if isinstance(rows, pa.Table):
            return self._registered(rows.cast(of))
        columns = list(zip(*rows, strict=True)) or [()] * len(of)
        return self._registered(
            pa.table([pa.array(column, f.type) for column, f in zip(columns, of, strict=True)], schema=of)
        )

    def of_batches(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> LocalFrame:
        return self._registered(pa.Table.from_batches(batches, schema))

    def parquet(self, files: Sequence[str], schema: pa.Schema | str) -> LocalFrame:
        """The rows of Parquet files; a column that a file lacks is null. LakeUnavailable."""
        of = _parsed(schema) if isinstance(schema, str) else schema
        return self._registered(
            pa.concat_tables([of.empty_table(), *(self._read(path, of) for path in files)])
        )

    def _read(self, path: str, schema: pa.Schema) -> pa.Table:
        inside = {name: lake for name, lake in self._lakes.items() if path.startswith(f"{lake}/")}
        datacenter, lake = max(inside.items(), key=lambda one: len(str(one[1])))  # one may lie below another
        with lake_errors(f"read {path}"), store_of(lake).open(path.removeprefix(f"{lake}/")) as source:
            try:
                rows = pq.ParquetFile(source).read()
            except (pa.ArrowInvalid, OSError) as error:
                if not tells_of_damage(error):
                    raise
                raise damaged(datacenter, path, "can't be read as Parquet") from error
        there = {name.lower(): name for name in rows.column_names}
        columns = [
            rows[there[field.name.lower()]].cast(field.type)
            if field.name.lower() in there
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)

    def _registered(self, table: pa.Table) -> LocalFrame:
        name = f"t{next(self._numbers)}"
        self._database.register(name, table)
        return LocalFrame(self, f"SELECT * FROM {name}", list(table.column_names))

    # -- queries

    def columns_of(self, sql: str) -> list[str]:
        """The columns of a query, as DuckDB names them."""
        return list(self._database.sql(sql).columns)

    def run(self, sql: str) -> pa.Table:
        return self._database.sql(sql).to_arrow_table()

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        yield from self.run(sql).combine_chunks().to_batches(self._batch_rows)

    def stored(self, sql: str) -> str:
        """The rows of a query in a table: the text that selects them."""
        name = f"s{next(self._numbers)}"
        self._database.execute(f"CREATE TEMP TABLE {quoted(name)} AS {sql}")
        return f"SELECT * FROM {quoted(name)}"


def write_file(frame: LocalFrame, folder: Location, name: str) -> None:
    """Write the rows of a frame as a folder of one Parquet file. LakeUnavailable."""
    rows = frame.to_arrow()

    def write(sink: BinaryIO) -> None:
        pq.write_table(rows, sink)

    with lake_errors(f"write to {folder}, which must be writable"):
        store = store_of(folder / name)
        store.make()
        store.create("part-0.parquet", write)


def _parsed(schema: str) -> pa.Schema:
    pairs = (part.split() for part in schema.split(","))
    return pa.schema([(name, TYPES[kind][1]) for name, kind in pairs])


def _hashes(texts: Any) -> pa.Array:
    return pa.array([xxhash64(text) for text in texts.to_pylist()], pa.int64())
