"""A bounded sample of a user's log files, as text columns. What the columns mean is told in `guess`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from photon.errors import WrongUsage
from photon.logs.columns import ONE_NAME_EACH
from photon.logs.dialect import header_names, plain_dialect
from photon.logs.discovery import FoundFile, reason_of, scan, strip_gz
from photon.logs.files import LogFile, Side
from photon.logs.gzips import CorruptGzip, NotClosedYet
from photon.logs.json_lines import decode_record
from photon.logs.lines import split_lines
from photon.logs.odd_files import LOOKED_AT_BYTES, Odd, no_json_lines, no_text
from photon.logs.parse import parse_combined
from photon.logs.source import Head, head_of, open_source
from photon.pipeline.sections import PrimaryLog
from photon.pipeline.values import Format

SAMPLE_FILES, SAMPLE_BYTES = 16, 16 * 2**20  # of each side
LINE_LIMIT_BYTES = 2**20
_LINES_FOR_FORMAT = 20
_LINES_FOR_NAMES = 200  # of a file of JSON lines: their keys are its columns
OTHER_TEXT = "docs/formats-and-adapters.md#text-of-another-kind says how to make one of these of it"
_DEEPEST = 4  # objects within each other; what is deeper is no id that anybody would find
_SHOWN = 80
MAGIC = re.compile(r"[*?\[]")


class CannotPropose(WrongUsage):
    """Logs that `photon init` can make no pipeline file of: what it saw, and what to do."""


@dataclass(frozen=True, slots=True)
class Where:
    """The files of one side: a glob below a folder of logs, as the pipeline file has it."""

    logs: Path
    glob: str


@dataclass(frozen=True, slots=True)
class SampledFile:
    """The first lines of one file."""

    file: LogFile
    data: bytes  # whole lines, past any header
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read of one side."""

    side: Side
    format: Format
    files_found: int
    files: tuple[SampledFile, ...]
    columns: dict[str, pa.Array]  # text; null where a line has none, or where it is empty
    passed_over: tuple[str, ...]  # files that could not be read, columns that could not be told apart; why

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


def read_sample(side: Side, where: Where, sample_bytes: int = SAMPLE_BYTES) -> Sample:
    """The first lines of some files of `where`; CannotPropose if there is nothing that can be used."""
    found = _files_of(side, where)
    chosen = [
        found[i * len(found) // min(len(found), SAMPLE_FILES)] for i in range(min(len(found), SAMPLE_FILES))
    ]
    each_bytes = max(2**16, sample_bytes // len(chosen))
    heads, passed_over = list[tuple[FoundFile, bytes, bool]](), list[str]()
    for file in chosen:
        try:
            with open_source(where.logs / file.path, file.compressed) as source:
                data = source.read(0, each_bytes)
            heads.append((file, data, len(data) < each_bytes))
        except (NotClosedYet, CorruptGzip) as error:
            passed_over.append(f"{file.path}: {str(error) or 'a gzip file that ends early'}")
        except OSError as error:
            passed_over.append(f"{file.path}: {reason_of(error)}")
    heads = [each for each in heads if each[1].strip()]
    if not heads:
        why = "; ".join(passed_over) or "all of them are empty"
        raise CannotPropose(f"{side}: none of the {len(found)} files of {_shown(where)} can be used: {why}")
    form = _one_format(side, where, {file.path: format_of(data) for file, data, _ in heads})
    files = [_sampled(number, side, *head, form) for number, head in enumerate(heads)]
    used = tuple(file for file in files if file is not None)
    if not used:
        raise CannotPropose(f"{side}: {_shown(where)} has no whole line yet; expected a header and records")
    repeated = _repeated(used, form)
    passed_over += [
        f"{path}: several of its columns are called {name!r}; {ONE_NAME_EACH}"
        for name, path in repeated.items()
    ]
    columns = _columns(used, form, repeated)
    return Sample(side, form, len(found), used, columns, tuple(passed_over))


def _shown(where: Where) -> str:
    return str(where.logs / where.glob)


def _files_of(side: Side, where: Where) -> Sequence[FoundFile]:
    fixed = Path(_fixed_part(str(where.logs / where.glob)))
    is_name = not MAGIC.search(where.glob) and not (where.logs / where.glob).exists()
    if not fixed.is_dir() or is_name:
        fixed = where.logs / where.glob if is_name else fixed
        raise CannotPropose(
            f"{side}: there is no {fixed}; expected a folder of log files, a file, or a glob in quotes"
        )
    seen = scan(where.logs, where.glob)
    if not seen.files:
        near = [each.path for each in scan(fixed, "**/*").files[:3]]
        there = f"the folder has {', '.join(near)}" if near else "the folder has no file"
        problems = "".join(f"; {problem.path}: {problem.reason}" for problem in seen.problems)
        raise CannotPropose(
            f"{side}: no file matches {_shown(where)}; {there}{problems}; name a folder with logs, or a glob"
        )
    return seen.files


def _one_format(side: Side, where: Where, by_path: dict[str, Format | Odd]) -> Format:
    """The format of all files; CannotPropose if there are several, or one that is none."""
    formats: dict[Format, str] = {}
    for path, found in by_path.items():
        if isinstance(found, Odd):
            raise CannotPropose(
                f"{side}: {where.logs / path} {found.what}; expected JSON lines, or CSV or TSV with a header "
                f"line. Where it is not meant, give a glob that leaves it out, "
                f"such as 'clicks/**/*.jsonl'; else {found.remedy}"
            )
        formats.setdefault(found, path)
    if len(formats) > 1:
        seen = ", ".join(f"{path} is {form}" for form, path in formats.items())
        raise CannotPropose(
            f"{side}: {_shown(where)} has files of several formats: {seen}; expected one: "
            "give a glob that names one kind, such as 'clicks/**/*.jsonl'"
        )
    return next(iter(formats))


def format_of(data: bytes) -> Format | Odd:
    """The format of a file that begins so; else what it is instead."""
    data = data[:LOOKED_AT_BYTES]
    if odd := no_text(data):
        return odd
    lines = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    if b"\0" in data:
        return Odd("holds binary data", OTHER_TEXT)
    try:
        first = lines[0].decode().rstrip("\r")
    except UnicodeDecodeError:
        return Odd(
            "holds bytes that are not UTF-8", "convert it to UTF-8, for example by `iconv -f LATIN1 -t UTF-8`"
        )
    if b"\n" not in data and data.count(b"\r") > 1:
        return Odd("ends its lines with CR alone", "convert them to LF or CR LF")
    looked_at = lines[:_LINES_FOR_FORMAT]
    if 2 * sum(map(_is_record, looked_at)) > len(looked_at):  # the first may be the rest of a line
        return "jsonl"
    if odd := no_json_lines(data):
        return odd
    return _jsonl_by(first) if first.startswith("{") else _delimited_by(first)


def _jsonl_by(first: str) -> Format | Odd:
    try:
        decode_record(first.encode())
    except ValueError as error:
        return Odd(f"begins with a line that is {error}", "mend the program that writes it")
    return "jsonl"


def _delimited_by(first: str) -> Format | Odd:
    """CSV or TSV, by the header line."""
    form: Format = "tsv" if first.count("\t") > first.count(",") else "csv"
    try:
        names = _header_names(first.encode(), form)
    except ValueError as error:
        return Odd(f"has no usable header line ({error})", OTHER_TEXT)
    if len(names) < 2:
        shown = first if len(first) <= _SHOWN else first[:_SHOWN] + "..."
        return Odd(f"begins with {shown!r}", OTHER_TEXT)
    if any(re.fullmatch(r"[-+\d.:TZ ]+", name) for name in names):
        return Odd(
            f"has no header line: its first line holds values, such as {names[0]!r}", "write one before it"
        )
    return form


def _header_names(header: bytes, form: Format) -> list[str]:
    dialect = plain_dialect(form)
    return [] if dialect is None else header_names(header, dialect)


def _is_record(line: bytes) -> bool:
    try:
        decode_record(line)
    except ValueError:
        return False
    return True


def _sampled(
    number: int, side: Side, found: FoundFile, data: bytes, is_whole: bool, form: Format
) -> SampledFile | None:
    head = head_of(data, plain_dialect(form), LINE_LIMIT_BYTES, final=True)
    if not isinstance(head, Head):
        return None
    records = data[head.header_bytes :]
    if not is_whole:
        records = records[: records.rfind(b"\n") + 1]
    file = LogFile(
        number, side, found.path, found.inode, found.compressed,
        head.header, head.header_bytes, head.head_bytes, head.head_hash,
    )  # fmt: skip
    return SampledFile(file, records, is_whole)


def _columns(files: Sequence[SampledFile], form: Format, left_out: Container[str]) -> dict[str, pa.Array]:
    """The columns of all files by name; of JSON objects within a line what is in them, as `a.b`."""
    names: dict[str, None] = {}
    for each in files:
        if form == "jsonl":
            for record in _some_records(each.data):
                names.update(dict.fromkeys(_names_in(record)))
        else:
            names.update(dict.fromkeys(_header_names(each.file.header, form)))
    wanted = [name for name in names if name and name not in left_out]
    parts = [_texts(each, form, wanted) for each in files] if wanted else []
    return {name: pa.concat_arrays([part[i] for part in parts]) for i, name in enumerate(wanted)}


def _repeated(files: Sequence[SampledFile], form: Format) -> dict[str, str]:
    """Columns that a header line names more than once, each with the path of such a file."""
    repeated: dict[str, str] = {}
    for each in files if form != "jsonl" else ():
        names = _header_names(each.file.header, form)
        repeated.update((name, each.file.path) for name in names if name and names.count(name) > 1)
    return repeated


def _names_in(record: dict[str, object], outer: str = "", depth: int = 0) -> Iterable[str]:
    for name, value in record.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _names_in(value, f"{outer}{name}.", depth + 1)
        else:
            yield outer + name


def _some_records(data: bytes) -> Iterable[dict[str, object]]:
    for line in data.split(b"\n")[:_LINES_FOR_NAMES]:
        try:
            record = json.loads(line)
        except ValueError:  # a dead letter to be; the trial counts it
            continue
        if isinstance(record, dict):
            yield record


def _texts(sampled: SampledFile, form: Format, names: Sequence[str]) -> list[pa.Array]:
    log = PrimaryLog(files="*", format=form, id=(names[0],), time=names[0])
    return parse_combined(split_lines(sampled.data).raws, sampled.file, log, *[[name] for name in names])
