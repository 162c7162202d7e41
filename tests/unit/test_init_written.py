"""`photon init` sees how files are written: delimiters, quotes, headers, comments, encodings, times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from photon.logs.file_kinds import Odd
from photon.logs.formats.dialect import decoded
from photon.logs.formats.times import parse_times
from photon.pipeline.file import Pipeline, load_pipeline
from photon.profile.column import formats_of
from photon.profile.file_format import FileFormat, format_of
from tests.support.commands import photon

NAMES = ["click_id", "query_id", "at", "note"]
ROWS = [[f"c{i}", f"q{i % 9}", str(1_767_607_200 + i), ("a", "b c", "")[i % 3]] for i in range(40)]


def lines(rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    return "".join(delimiter.join(row) + "\n" for row in rows)


def seen(text: str | bytes, is_cut: bool = False) -> FileFormat | Odd:
    return format_of(text.encode() if isinstance(text, str) else text, is_cut)


@pytest.mark.parametrize(
    ("delimiter", "expected"),
    [
        (",", FileFormat("csv")),
        ("\t", FileFormat("tsv")),
        (";", FileFormat("csv", delimiter=";")),
        ("|", FileFormat("csv", delimiter="|")),
        ("\x01", FileFormat("csv", delimiter="\x01")),
    ],
)
def test_delimiters_are_told_apart(delimiter: str, expected: FileFormat) -> None:
    assert seen(lines([NAMES, *ROWS], delimiter)) == expected


def test_a_decimal_comma_is_no_delimiter_and_a_quoted_delimiter_is_none() -> None:
    rows = [[*row[:3], f"{i},5"] for i, row in enumerate(ROWS)]
    assert seen(lines([NAMES, *rows], ";")) == FileFormat("csv", delimiter=";")
    rows = [[*row[:3], f'"a; b, c{i}"'] for i, row in enumerate(ROWS)]
    assert seen(lines([NAMES, *rows], ";")) == FileFormat("csv", delimiter=";")


def test_lines_that_are_cut_and_quoted_line_ends_do_not_matter() -> None:
    rows = [[*row[:3], f'"two\nlines {i}"'] for i, row in enumerate(ROWS)]
    text = lines([NAMES, *rows], ";")
    assert seen(text) == FileFormat("csv", delimiter=";")
    assert seen(text[:-4], is_cut=True) == FileFormat("csv", delimiter=";")


def test_a_bad_line_of_a_short_file_hides_no_delimiter() -> None:
    assert seen(lines([NAMES, *ROWS[:2]], ";") + '"open;x\n') == FileFormat("csv", delimiter=";")
    assert seen(lines([NAMES, *ROWS[:2]], "\t") + "cut\tx\n") == FileFormat("tsv")


def test_quotes_and_escapes_of_other_programs_are_seen() -> None:
    quoted = lines([[f"'{value}'" for value in row] for row in [NAMES, *ROWS]])
    assert seen(quoted) == FileFormat("csv", quote="'")
    in_tabs = lines([[f'"{value}"' for value in row] for row in [NAMES, *ROWS]], "\t")
    assert seen(in_tabs) == FileFormat("tsv", quote='"')
    escaped = [[*row[:3], r'"say \"hello, you\" now"'] for row in ROWS]
    assert seen(lines([NAMES, *escaped])) == FileFormat("csv", escape="\\")
    doubled = [[*row[:3], '"say ""hello, you"" now"'] for row in ROWS]
    assert seen(lines([NAMES, *doubled])) == FileFormat("csv")


def test_a_header_that_is_nowhere_is_numbered_and_one_in_a_comment_is_taken() -> None:
    numbered = ("column_1", "column_2", "column_3", "column_4")
    assert seen(lines(ROWS)) == FileFormat("csv", header=numbered)
    texts = [[f"c{i}", ("view", "buy")[i % 2], "de"] for i in range(40)]
    assert seen(lines(texts)) == FileFormat("csv", header=numbered[:3])
    commented = "# made by hand\n#" + lines([NAMES, *ROWS])
    assert seen(commented) == FileFormat("csv", header=tuple(NAMES), comment="#")


def test_the_names_of_a_web_caches_log_are_taken_from_its_comment() -> None:
    names = ["date", "time", "c-ip", "x-edge-request-id"]
    rows = [["2026-01-05", f"10:00:{i:02}", "10.0.0.1", f"r{i}=="] for i in range(40)]
    text = "#Version: 1.0\n#Fields: " + " ".join(names) + "\n" + lines(rows, "\t")
    assert seen(text) == FileFormat("tsv", header=tuple(names), comment="#")


def test_comments_before_a_header_and_those_of_zeek_are_seen() -> None:
    assert seen("# made by hand\n" + lines([NAMES, *ROWS])) == FileFormat("csv", comment="#")
    zeek = (
        "#separator \\x09\n#set_separator\t,\n#fields\t"
        + "\t".join(NAMES)
        + "\n#types\tstring\tstring\ttime\tstring\n"
    )
    text = zeek + lines(ROWS, "\t") + "#close\t2026-01-05-10-00-00\n"
    assert seen(text) == FileFormat("tsv", comment="#")


def test_one_byte_a_character_is_told_from_utf_8_with_some_bad_lines() -> None:
    rows = [[*row[:3], "Größe"] for row in ROWS]
    text = lines([NAMES, *rows], ";")
    assert seen(text.encode("latin-1")) == FileFormat("csv", delimiter=";", encoding="cp1252")
    assert seen(text.encode() + b"c99;q1;1767607200;Gr\xf6\xdfe\n") == FileFormat("csv", delimiter=";")


@pytest.mark.parametrize("later", ["5 €", "„so“", "Œuvre", "Žižek"])
@pytest.mark.parametrize("sampled", ["Größe", "café", "£5"])
def test_a_sign_of_windows_behind_the_sample_is_read_as_that_sign(sampled: str, later: str) -> None:
    """All bytes of these samples mean the same in Latin-1, where the later ones are control characters."""
    text = lines([NAMES, *([*row[:3], sampled] for row in ROWS)], ";").encode("cp1252")
    found = seen(text)
    assert found == FileFormat("csv", delimiter=";", encoding="cp1252")
    assert decoded(later.encode("cp1252"), found.encoding) == later


def test_text_of_one_column_and_json_that_is_not_utf_8_are_no_tables() -> None:
    assert isinstance(seen("one\ntwo\nthree\n"), Odd)
    odd = seen('{"id": "1", "name": "Größe"}\n'.encode("latin-1") * 3)
    assert isinstance(odd, Odd)
    assert "UTF-8" in odd.what


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["05.01.2026 10:00:00", "31.01.2026 10:00:01"], ("%d.%m.%Y %H:%M:%S",)),
        (["05/31/2026 10:00:00", "01/05/2026 23:00:01"], ("%m/%d/%Y %H:%M:%S",)),
        (["05/01/2026 10:00", "06/01/2026 23:00"], ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M")),
        (["1/13/2026 10:00:00 PM", "1/14/2026 1:00:00 AM"], ("%m/%d/%Y %I:%M:%S %p",)),
        (["Mon Jan  5 10:00:00 2026"], ("%a %b %d %H:%M:%S %Y",)),
        (["20260105100000", "20261231235959"], ("%Y%m%d%H%M%S",)),
        (["c1", "q17", "12", "1.2.3", "Paris 2026"], ()),
    ],
)
def test_formats_of_times_are_found_by_their_values(texts: list[str], expected: tuple[str, ...]) -> None:
    assert formats_of(texts) == expected
    assert parse_times_of(texts) == 0 or not expected


def parse_times_of(texts: list[str]) -> int:
    """Count the texts that Photon knows as times without a format: for these none is proposed."""
    import pyarrow as pa

    return len(texts) - parse_times(pa.array(texts), "iso8601").null_count


def described(folder: Path, clicks: str | bytes, *said: str, status: int = 0) -> Pipeline | str:
    """The pipeline that `photon init` writes for queries and these clicks, or what it asks."""
    (folder / "queries").mkdir(exist_ok=True)
    (folder / "clicks").mkdir(exist_ok=True)
    queries = [["query_id", "at"], *([f"q{i}", str(1_767_607_200 + i)] for i in range(9))]
    (folder / "queries" / "a.csv").write_text(lines(queries))
    (folder / "clicks" / "a.csv").write_bytes(clicks.encode() if isinstance(clicks, str) else clicks)
    places = [str(folder / name) for name in ("queries", "clicks")]
    done = photon("init", *places, "--force", "-o", folder / "p.yaml", *said)
    assert done.exit_code == status, done.output
    return done.stderr if status else load_pipeline(folder / "p.yaml")


def test_what_is_seen_is_written_into_the_pipeline_file(tmp_path: Path) -> None:
    rows = [[*row[:2], f"{1 + i % 28:02}.01.2026 10:00:00", "Größe"] for i, row in enumerate(ROWS)]
    text = "# export\n" + lines([NAMES, *rows], ";")
    pipeline = described(tmp_path, text.encode("latin-1"))
    assert isinstance(pipeline, Pipeline)
    log = pipeline.foreign
    assert (log.format, log.delimiter, log.comment, log.encoding) == ("csv", ";", "#", "cp1252")
    assert (log.time, log.time_format, log.id) == (("at",), ("%d.%m.%Y %H:%M:%S",), ("click_id",))


def test_files_without_a_header_are_described_with_the_options_that_are_asked_for(tmp_path: Path) -> None:
    question = described(tmp_path, lines(ROWS), status=1)
    assert "--foreign-id column_1" in str(question)
    pipeline = described(tmp_path, lines(ROWS), "--foreign-id", "column_1")
    assert isinstance(pipeline, Pipeline)
    assert pipeline.foreign.header == ("column_1", "column_2", "column_3", "column_4")
    assert (pipeline.foreign.key, pipeline.foreign.time) == (("column_2",), ("column_3",))


def test_a_day_that_may_be_a_month_is_asked_for(tmp_path: Path) -> None:
    rows = [[*row[:2], f"{1 + i % 9:02}/02/2026 10:00:00", "x"] for i, row in enumerate(ROWS)]
    question = str(described(tmp_path, lines([NAMES, *rows]), status=1))
    assert "nobody can tell the day from the month in 'at'" in question
    assert "--foreign-time-format '%d/%m/%Y %H:%M:%S'" in question
    pipeline = described(tmp_path, lines([NAMES, *rows]), "--foreign-time-format", "%m/%d/%Y %H:%M:%S")
    assert isinstance(pipeline, Pipeline)
    assert pipeline.foreign.time_format == ("%m/%d/%Y %H:%M:%S",)


W3C = (
    "#Software: Microsoft Internet Information Services 10.0\n#Fields: date time c-id cs-uri q-id sc-status\n"
)


def test_day_and_time_of_day_are_proposed_together(tmp_path: Path) -> None:
    rows = [[*row[:2], "28.11.2026", f"{9 + i % 12:02}:{i:02}:00"] for i, row in enumerate(ROWS)]
    pipeline = described(tmp_path, lines([["click_id", "query_id", "Datum", "Zeit"], *rows], ";"))
    assert isinstance(pipeline, Pipeline)
    assert (pipeline.foreign.time, pipeline.foreign.time_format) == (
        ("Datum", "Zeit"),
        ("%d.%m.%Y %H:%M:%S",),
    )


@pytest.mark.parametrize(("between", "form"), [(" ", "csv"), ("\t", "tsv")])
def test_w3c_logs_are_described_by_their_comment(tmp_path: Path, between: str, form: str) -> None:
    """IIS writes blanks between values, CloudFront tabs."""
    rows = [["2026-11-28", f"09:15:{i:02}", f"c{i}", "/a,b;c", f"q{i % 9}", "200"] for i in range(40)]
    text = W3C + lines(rows, between)
    pipeline = described(tmp_path, text, "--foreign-id", "c-id", "--foreign-key", "q-id")
    assert isinstance(pipeline, Pipeline)
    log = pipeline.foreign
    assert (log.format, log.time, log.time_unit) == (form, ("date", "time"), "iso8601")
    assert log.header == ("date", "time", "c-id", "cs-uri", "q-id", "sc-status")


def test_where_several_columns_have_times_of_day_init_asks(tmp_path: Path) -> None:
    rows = [[*row[:2], "2026-11-28", f"09:15:{i:02}", f"09:16:{i:02}"] for i, row in enumerate(ROWS)]
    text = lines([["click_id", "query_id", "date", "begin_time", "end_time"], *rows])
    asked = described(tmp_path, text, status=1)
    assert "--foreign-time date,begin_time or --foreign-time date,end_time" in str(asked)
    pipeline = described(tmp_path, text, "--foreign-time", "date,end_time")
    assert isinstance(pipeline, Pipeline)
    assert pipeline.foreign.time == ("date", "end_time")


def test_a_long_record_raises_the_limit_and_its_length_is_told(tmp_path: Path) -> None:
    note = "line\n" * 300_000
    rows = [[*row[:3], note if i == 7 else "x"] for i, row in enumerate(ROWS)]
    text = lines([NAMES, *([*row[:3], f'"{row[3]}"'] for row in rows)])
    pipeline = described(tmp_path, text)
    assert isinstance(pipeline, Pipeline)
    assert pipeline.limits.line_bytes == 4 * 2**20
    assert "1,500,019 bytes" in (tmp_path / "p.yaml").read_text()
    assert "limits" not in described_text(tmp_path, text.replace("line\n", ""))


def described_text(folder: Path, clicks: str) -> str:
    described(folder, clicks)
    return (folder / "p.yaml").read_text()


@pytest.mark.parametrize(
    ("values", "is_told"), [(["7,5", "-0,25"], True), (["7,5", "a,b"], False), (["1,2,3"], False)]
)
def test_decimal_commas_are_told_to_stay_text(tmp_path: Path, values: list[str], is_told: bool) -> None:
    rows = [[*row[:3], values[i % len(values)]] for i, row in enumerate(ROWS)]
    described(tmp_path, lines([["click_id", "query_id", "at", "amount"], *rows], ";"))
    done = photon("init", str(tmp_path / "queries"), str(tmp_path / "clicks"), "--dry-run")
    assert ("foreign: amount has decimal commas, and stays text" in done.output) == is_told
