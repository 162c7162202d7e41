"""Read lines of log files again of which only the places are known, many at once.

Whoever reads them compares their ids: another file may be in a log's place. Where their lengths are known
too, `scattered` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.files import TrackedFile
from photon.logs.formats.dialect import dialect_of
from photon.logs.formats.lines import cut
from photon.logs.formats.records import record_rules
from photon.logs.later_headers import in_first_order
from photon.logs.scattered import LinePlaces, read_places, read_stretches_in_order
from photon.pipeline.location import Location
from photon.pipeline.sections import Log

GUESSED_BYTES = (1024, 4096)  # that are read from where a line begins; then as many as a line may have
_NEWLINE, _RETURN = b"\n"[0], b"\r"[0]

Ints = npt.NDArray[np.int64]


def read_records_at(
    logs: Location,
    files: Mapping[int, TrackedFile],
    numbers: Ints,
    starts_bytes: Ints,
    line_bytes: int,
    log: Log,
) -> pa.Array:
    """The records that begin at these places, as `read_lines_at` reads lines; some may have several lines.

    The columns of each are in the order that its file begins with.
    """
    records = _read_records(logs, files, numbers, starts_bytes, line_bytes, log)
    changed = [
        files[n].file for n in np.unique(numbers).tolist() if n in files and files[n].file.later_headers
    ]
    return in_first_order(records, numbers, starts_bytes, changed, dialect_of(log)) if changed else records


def _read_records(
    logs: Location,
    files: Mapping[int, TrackedFile],
    numbers: Ints,
    starts_bytes: Ints,
    line_bytes: int,
    log: Log,
) -> pa.Array:
    lines = read_lines_at(logs, files, numbers, starts_bytes, line_bytes)
    dialect = dialect_of(log)
    if dialect is None:
        return lines
    signs = [pc.count_substring(lines, sign) for sign in dialect.quote + dialect.escape]
    may_go_on = [pc.not_equal(pc.bit_wise_and(n, 1) if not dialect.escape else n, 0) for n in signs]
    places = {
        (int(numbers[row]), int(starts_bytes[row])): row
        for row in {
            row for each in may_go_on for row in pc.indices_nonzero(pc.fill_null(each, False)).to_pylist()
        }
    }
    again = dict[int, bytes]()
    for (number, start), row in sorted(places.items()):
        tracked = files[number]
        rules = record_rules(log, tracked.file.header, line_bytes)
        end = min(start + line_bytes + 2, tracked.offset_bytes)
        (data,) = read_stretches_in_order(logs, {number: tracked.file}, np.array([number]), [(start, end)])
        length = (
            None if data is None or rules is None else rules.end_of_first(data, end == tracked.offset_bytes)
        )
        if data is not None and length is not None:
            again[row] = data[:length].removesuffix(b"\n").removesuffix(b"\r")
    if not again:
        return lines
    rows = sorted(again)
    is_again = np.zeros(len(lines), bool)
    is_again[rows] = True
    found = pa.array([again[row] for row in rows], lines.type)
    return pc.replace_with_mask(lines, pa.array(is_again), found)


def read_lines_at(
    logs: Location, files: Mapping[int, TrackedFile], numbers: Ints, starts_bytes: Ints, line_bytes: int
) -> pa.Array:
    """The lines that begin at these places, without their ends; null where they can't be read.

    Reads nothing beyond what was read of a file before, and no line that is longer than `line_bytes`.
    """
    places, of_row = np.unique(np.stack((numbers, starts_bytes)), axis=1, return_inverse=True)
    known = (places[1] >= 0) & (places[1] < ends_of_files(places[0], files))
    lines = np.full(places.shape[1], -1)  # where each place's line is among `found`
    found: list[pa.Array] = [pa.array([], pa.binary())]
    count = 0
    for guessed_bytes in (*GUESSED_BYTES, line_bytes + 2):
        left = np.flatnonzero(known & (lines < 0))
        numbers, starts = places[:, left]
        tried = LinePlaces(numbers, starts, np.minimum(starts + guessed_bytes, ends_of_files(numbers, files)))
        for portion in tried.portions():
            read = _read(logs, files, tried[portion])
            is_short = pc.less_equal(pc.binary_length(read), line_bytes)
            is_found = pc.fill_null(is_short, False).to_numpy(zero_copy_only=False)
            lines[left[portion][is_found]] = count + np.flatnonzero(is_found)
            found.append(read)
            count += len(read)
    index = lines[of_row.reshape(-1)]
    return pa.chunked_array(found).take(pa.array(index, mask=index < 0)).combine_chunks()


def ends_of_files(numbers: Ints, files: Mapping[int, TrackedFile]) -> Ints:
    """Up to where the file of each number was read; 0 where nobody knows the file."""
    distinct, of = np.unique(numbers, return_inverse=True)
    ends = [files[number].offset_bytes if number in files else 0 for number in distinct.tolist()]
    return np.array(ends, np.int64)[of.reshape(-1)]


def _read(logs: Location, files: Mapping[int, TrackedFile], places: LinePlaces) -> pa.Array:
    """The line that begins at each place; null where it is not whole."""
    known = {number: files[number].file for number in np.unique(places.numbers).tolist()}
    read = read_places(logs, known, places)
    text = np.frombuffer(read.text, np.uint8)
    newlines = np.append(np.flatnonzero(text == _NEWLINE), len(text))
    newline = newlines[np.searchsorted(newlines, np.minimum(read.starts, len(text)))]
    ends = np.minimum(newline, read.ends)
    # The last line of a file may have no newline (protocol D4).
    reaches_end = read.ends_in_file == ends_of_files(places.numbers, files)
    is_lost = (read.starts >= read.ends) | ~((ends < read.ends) | reaches_end)
    starts, ends = np.where(is_lost, 0, read.starts), np.where(is_lost, 0, ends)
    return _without_returns(text, starts, ends, is_lost)


def _without_returns(
    text: npt.NDArray[np.uint8], at: Ints, ends: Ints, is_lost: npt.NDArray[np.bool_]
) -> pa.Array:
    """The bytes from `at` to `ends`, without a carriage return; null where lost."""
    if not len(text):
        return pa.nulls(len(at), pa.binary())
    ends = ends - ((ends > at) & (text[np.maximum(ends, 1) - 1] == _RETURN))
    return cut(pa.py_buffer(text), at, ends, is_lost)
