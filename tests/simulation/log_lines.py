"""Lines of logs in each format, and the records that they hold."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from photon.pipeline.values import Format

Record = dict[str, Any]
FORMATS: tuple[Format, ...] = ("csv", "tsv", "jsonl")  # those that hold any record, and are written here


def append(log: Path, format_: Format, records: Sequence[Record | str]) -> None:
    """Append records, or lines as they are; a CSV or TSV file begins with its header."""
    is_new = not log.exists() or log.stat().st_size == 0
    with log.open("a", newline="") as sink:
        for record in records:
            if isinstance(record, str):
                sink.write(record)
            else:
                sink.write(_header(record, format_) if is_new else "")
                sink.write(_line(list(record.values()), format_) if format_ != "jsonl" else _object(record))
            is_new = False


def records_in(log: Path, format_: Format) -> list[dict[str, Any]]:
    """The records of a file; read otherwise than the product does."""
    text = log.read_text()
    if format_ == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    quoting = csv.QUOTE_NONE if format_ == "tsv" else csv.QUOTE_MINIMAL
    return list(csv.DictReader(io.StringIO(text), delimiter=_DELIMITERS[format_], quoting=quoting))


_DELIMITERS = {"csv": ",", "tsv": "\t"}


def _object(record: Record) -> str:
    return json.dumps(record) + "\n"


def _header(record: Record, format_: Format) -> str:
    return "" if format_ == "jsonl" else _line(list(record), format_)


def _line(values: Sequence[Any], format_: Format) -> str:
    if format_ == "tsv":
        return "\t".join("" if value is None else str(value) for value in values) + "\n"
    sink = io.StringIO(newline="")
    # Ends lines with CR LF.
    csv.writer(sink, delimiter=_DELIMITERS[format_], quoting=csv.QUOTE_NONNUMERIC).writerow(values)
    return sink.getvalue()
