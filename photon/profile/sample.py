"""A bounded sample of a user's log files, as text columns. What the columns mean is told in `guess`."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.columns import ONE_NAME_EACH
from photon.logs.discovery import FoundFile, Scan, reason_of, scan, strip_gz
from photon.logs.file_kinds import Odd
from photon.logs.files import LogFile, Side
from photon.logs.formats.dialect import dialect_of, header_names
from photon.logs.formats.line_formats import OWN
from photon.logs.formats.lines import LineReader
from photon.logs.formats.records import record_rules
from photon.logs.gzips import CorruptGzip, NotClosedYet
from photon.logs.parse import parse_combined
from photon.logs.source import Head, head_of, open_source
from photon.pipeline.sections import PrimaryLog
from photon.pipeline.values import TEXT_TABLES
from photon.process.errors import WrongUsage
from photon.process.readable import readable
from photon.profile.file_format import FileFormat, format_of, format_of_both
from photon.profile.pieces import Piece, pieces_of, raws_of, whole_records

SAMPLE_FILES, SAMPLE_BYTES = 16, 16 * 2**20  # that are read of each side
LINE_LIMIT_BYTES = 8 * 2**20  # of a record: beyond `limits.line`, so that longer ones are measured
_DEEPEST = 4  # objects within each other; what is deeper is no id that anybody would find
MAGIC = re.compile(r"[*?\[]")
JsonType = Literal["text", "integer", "decimal", "boolean", "structure"]
_JSON_TYPES: dict[type, JsonType] = {
    str: "text", int: "integer", float: "decimal", bool: "boolean", list: "structure", dict: "structure",
}  # fmt: skip


class CannotPropose(WrongUsage):
    """Logs that `photon init` can make no pipeline file of: what it saw, and what to do."""


@dataclass(frozen=True, slots=True)
class Where:
    """The files of one side: a glob below a folder of logs, as the pipeline file has it."""

    logs: Path
    glob: str


@dataclass(frozen=True, slots=True)
class SampledFile:
    """Lines of one file, past any header: from its beginning, and of a long one from elsewhere too."""

    file: LogFile
    pieces: tuple[Piece, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class SideSample:
    """The records that were read of one side."""

    side: Side
    name: str  # a word for the log: that of its folder or file
    format: FileFormat
    files_found: int
    files: tuple[SampledFile, ...]
    # Text by record, null where it has none or an empty one. A record that was logged twice counts once.
    columns: dict[str, pa.Array]
    longest_bytes: int  # of the longest record
    json_types: Mapping[str, frozenset[JsonType]]  # types of values, but null, in columns of JSON lines
    outermost: tuple[str, ...]  # the columns that rows have: those that lie in no object
    passed_over: tuple[str, ...]  # files that could not be read, columns that could not be told apart; why
    links_lead_out: bool  # some of its files are links that leave the logs folder

    @property
    def is_whole(self) -> bool:
        return self.files_found == len(self.files) and all(each.is_whole for each in self.files)


def where_of(primary: str, foreign: str) -> tuple[Where, Where]:
    """Where the files of both sides are, below the folder that both have in common."""
    bases = [_fixed_part(primary), _fixed_part(foreign)]
    logs = Path(os.path.commonpath(bases))
    if logs.is_file():
        logs = logs.parent
    return Where(logs, below(logs, primary)), Where(logs, below(logs, foreign))


def below(logs: Path, place: str) -> str:
    """A folder, file or glob as a glob below `logs`; a folder's files all have one ending, or it is `*`."""
    path = os.path.relpath(os.path.abspath(place), logs.absolute())
    if not os.path.isdir(place):
        return path
    found = scan(Path(place), "**/*").files
    endings = {Path(strip_gz(each.path)).suffix for each in found}
    ending = endings.pop() if len(endings) == 1 else ""
    return f"**/*{ending}" if path == "." else f"{path}/**/*{ending}"


def _fixed_part(place: str) -> str:
    """The folder of a place: what is before its first wildcard; a file's own folder."""
    if os.path.isdir(place):
        return os.path.abspath(place)
    wild = MAGIC.search(place)
    fixed = place[: wild.start()] if wild else place
    return os.path.abspath(os.path.dirname(fixed))


def read_sample(side: Side, where: Where, sample_bytes: int = SAMPLE_BYTES) -> SideSample:
    """The first lines of some files of `where`; CannotPropose if there is nothing that can be used."""
    seen, links_lead_out = _scan_of(side, where)
    found = seen.files
    chosen = [
        found[i * len(found) // min(len(found), SAMPLE_FILES)] for i in range(min(len(found), SAMPLE_FILES))
    ]
    each_bytes = max(2**16, sample_bytes // len(chosen))
    heads, passed_over = list[tuple[FoundFile, list[Piece], bool]](), _passed_over_in(seen)
    for file in chosen:
        try:
            with open_source(where.logs / file.path, file.compressed) as source:
                heads.append((file, *pieces_of(source, file, each_bytes)))
        except (NotClosedYet, CorruptGzip) as error:
            passed_over.append(f"{file.path}: {str(error) or 'a gzip file that ends early'}")
        except OSError as error:
            passed_over.append(f"{file.path}: {reason_of(error)}")
    heads = [each for each in heads if each[1][0].data.strip()]
    if not heads:
        why = "; ".join(passed_over) or "all of them are empty"
        raise CannotPropose(f"{side}: none of the {len(found)} files of {_shown(where)} can be used: {why}")
    formats = {
        file.path: format_of(b"".join(piece.data for piece in pieces), not is_whole)
        for file, pieces, is_whole in heads
    }
    file_format = _one_of(side, where, formats)
    files = [_sampled(number, side, *head, file_format) for number, head in enumerate(heads)]
    used = tuple(file for file in files if file is not None)
    if not used:
        raise CannotPropose(f"{side}: {_shown(where)} has no whole line yet; expected a header and records")
    repeated = _repeated(used, file_format)
    passed_over += [
        f"{path}: several of its columns are called {name!r}; {ONE_NAME_EACH}"
        for name, path in repeated.items()
    ]
    names = _Names.of(used, file_format)
    columns, longest_bytes = _columns(
        used, file_format, [name for name in names.all if name and name not in repeated]
    )
    return SideSample(
        side, word_of(where.glob), file_format, len(found), used, columns, longest_bytes,
        {name: frozenset(seen) for name, seen in names.json_types.items()},
        tuple(name for name in names.outermost if name in columns), tuple(passed_over),
        links_lead_out,
    )  # fmt: skip


def word_of(place: str) -> str:
    """The last part of a folder, file or glob that has no wildcard, in small letters, without endings."""
    plain = [part for part in Path(place).parts if not MAGIC.search(part)]
    return re.sub("[^a-z0-9]+", "_", plain[-1].partition(".")[0].lower()).strip("_") if plain else ""


def _shown(where: Where) -> str:
    return str(where.logs / where.glob)


def _scan_of(side: Side, where: Where) -> tuple[Scan, bool]:
    """Find the files that the glob matches, one at least, and whether links lead out. CannotPropose."""
    fixed = Path(_fixed_part(str(where.logs / where.glob)))
    is_name = not MAGIC.search(where.glob) and not (where.logs / where.glob).exists()
    if not fixed.is_dir() or is_name:
        fixed = where.logs / where.glob if is_name else fixed
        raise CannotPropose(
            f"{side}: there is no {fixed}; expected a folder of log files, a file, or a glob in quotes"
        )
    seen = scan(where.logs, where.glob)
    if links_lead_out := any(one.is_refused for one in seen.unseen):
        seen = scan(where.logs, where.glob, links_lead_out=True)
    if not seen.files:
        near = [each.path for each in scan(fixed, "**/*").files[:3]]
        there = f"the folder has {', '.join(near)}" if near else "the folder has no file"
        problems = "".join(f"; {each}" for each in _passed_over_in(seen))
        raise CannotPropose(
            f"{side}: no file matches {_shown(where)}; {there}{problems}; name a folder with logs, or a glob"
        )
    return seen, links_lead_out


def _passed_over_in(seen: Scan) -> list[str]:
    """Name what the glob matches and nobody can read, as `photon status` does."""
    return [f"{readable(one.path)}: {one.reason}" for one in (*seen.problems, *seen.passed_over)]


def _one_of(side: Side, where: Where, by_path: dict[str, FileFormat | Odd]) -> FileFormat:
    """The format of all files; CannotPropose if they differ, or one is no log."""
    all_of_them: FileFormat | None = None
    for path, found in by_path.items():
        if isinstance(found, Odd):
            raise CannotPropose(
                f"{side}: {where.logs / path} {found.what}; expected JSON lines, CSV, TSV, an access log or "
                "logfmt. Where it is not meant, give a glob that leaves it out, such as 'clicks/**/*.jsonl'; "
                f"else {found.remedy_for(where.logs / path)}"
            )
        both = found if all_of_them is None else format_of_both(all_of_them, found)
        if both is None:
            seen = ", ".join(f"{each} is {what}" for each, what in by_path.items())
            raise CannotPropose(
                f"{side}: {_shown(where)} has files of several formats: {seen}; expected one: "
                "give a glob that names one kind, such as 'clicks/**/*.jsonl'"
            )
        all_of_them = both
    assert all_of_them is not None, "there is a file"
    return all_of_them


def _log_of(file_format: FileFormat, name: str) -> PrimaryLog:
    """A log in this format, to read it; which column is which does not matter here."""
    return PrimaryLog(files="*", id=(name,), time=(name,), **file_format.settings())


def _header_of(file: LogFile, file_format: FileFormat) -> list[str]:
    dialect = dialect_of(_log_of(file_format, "-"))
    return [] if dialect is None else header_names(file.header, dialect)


def _sampled(
    number: int,
    side: Side,
    found: FoundFile,
    pieces: Sequence[Piece],
    is_whole: bool,
    file_format: FileFormat,
) -> SampledFile | None:
    head = head_of(pieces[0].data, dialect_of(_log_of(file_format, "-")), LINE_LIMIT_BYTES, final=True)
    if not isinstance(head, Head):
        return None
    file = LogFile(
        number, side, found.path, found.inode, found.compressed,
        head.header, head.header_bytes, head.head_bytes, head.head_hash,
    )  # fmt: skip
    first = Piece(head.header_bytes, pieces[0].data[head.header_bytes :])
    rules = record_rules(_log_of(file_format, "-"), file.header, LINE_LIMIT_BYTES)
    return SampledFile(file, whole_records([first, *pieces[1:]], rules, is_whole), is_whole)


@dataclass(slots=True)
class _Names:
    """The columns of some files; of JSON objects within a line what is in them, as `a.b`."""

    all: dict[str, None] = field(default_factory=dict)
    outermost: dict[str, None] = field(default_factory=dict)
    json_types: dict[str, set[JsonType]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, files: Sequence[SampledFile], file_format: FileFormat) -> _Names:
        found = cls()
        for each in files:
            if file_format.format in TEXT_TABLES:
                found.outermost.update(dict.fromkeys(_header_of(each.file, file_format)))
                found.all.update(found.outermost)
                continue
            if file_format.format != "jsonl":
                reader = OWN[file_format.format]
                for values in _values_of(each, reader):
                    found.outermost.update(dict.fromkeys(values))
                    found.all.update(dict.fromkeys((*values, *reader.inner(values))))
                continue
            for record in _records(each):
                found.outermost.update(dict.fromkeys(record))
                for name, value in _values_in(record):
                    found.all.setdefault(name)
                    if value is not None:
                        found.json_types[name].add(_JSON_TYPES[type(value)])
        return found


def _columns(
    files: Sequence[SampledFile], file_format: FileFormat, names: Sequence[str]
) -> tuple[dict[str, pa.Array], int]:
    """The columns of all files by name; and how long the longest record is."""
    if not names:
        return {}, 0
    parts = [_texts(each, file_format, names) for each in files]
    joined = [pa.concat_arrays([part[i] for part in parts]) for i in range(len(names) + 1)]
    table = pa.table(joined, ["", *names])
    longest_bytes = pc.max(pc.binary_length(table[""])).as_py() or 0
    table = table.take(_first_records(table))
    return {name: table[name].combine_chunks() for name in names}, longest_bytes


def _first_records(table: pa.Table) -> pa.Array:
    """The rows of lines that hold something, each line once; `table` has the lines first."""
    is_empty = table.columns[1].is_null()
    for column in table.columns[2:]:
        is_empty = pc.and_(is_empty, column.is_null())
    rows = pa.table({"line": table.columns[0], "row": np.arange(len(table))}).filter(pc.invert(is_empty))
    return rows.group_by("line").aggregate([("row", "min")])["row_min"].combine_chunks().sort()


def _repeated(files: Sequence[SampledFile], file_format: FileFormat) -> dict[str, str]:
    """Columns that a header line names more than once, each with the path of such a file."""
    repeated: dict[str, str] = {}
    for each in files if file_format.format in TEXT_TABLES else ():
        names = _header_of(each.file, file_format)
        repeated.update((name, each.file.path) for name in names if name and names.count(name) > 1)
    return repeated


def _values_in(record: dict[str, object], outer: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _values_in(value, f"{outer}{name}.", depth + 1)
        else:
            yield outer + name, value


def _lines(sampled: SampledFile) -> Iterator[bytes]:
    return (line for piece in sampled.pieces for line in piece.data.split(b"\n"))


def _values_of(sampled: SampledFile, reader: LineReader) -> Iterator[Mapping[str, str | None]]:
    for line in _lines(sampled):
        with suppress(ValueError):  # a dead letter to be; the trial counts it
            yield reader.record(line)


def _records(sampled: SampledFile) -> Iterable[dict[str, object]]:
    for line in _lines(sampled):
        try:
            record = json.loads(line)
        except ValueError:  # a dead letter to be; the trial counts it
            continue
        if isinstance(record, dict):
            yield record


def _texts(sampled: SampledFile, file_format: FileFormat, names: Sequence[str]) -> list[pa.Array]:
    """The lines of a file, but for comments and repeated headers, and some columns of them."""
    log = _log_of(file_format, names[0])
    rules = record_rules(log, sampled.file.header, LINE_LIMIT_BYTES)
    raws = pa.concat_arrays([raws_of(piece, rules) for piece in sampled.pieces])
    if sampled.file.first_header:
        raws = raws.filter(pc.not_equal(raws, sampled.file.first_header))
    if log.comment:
        raws = raws.filter(pc.invert(pc.starts_with(raws, log.comment)))
    header = _header_of(sampled.file, file_format) if file_format.format in TEXT_TABLES else names
    there = [name for name in names if header.count(name) == 1]
    parsed = parse_combined(raws, sampled.file, log, *[[name] for name in there]) if there else []
    texts = dict(zip(there, parsed, strict=True))
    nothing = pa.nulls(len(raws), pa.string())
    return [raws, *(texts.get(name, nothing) for name in names)]
