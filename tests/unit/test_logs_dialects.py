"""CSV and TSV as people's programs write them: other signs, no header, comments, other encodings."""

from pathlib import Path

import pyarrow as pa
import pytest

from photon.logs.columns import parse_columns
from photon.logs.files import ByteRange, LogFile
from photon.logs.formats.dialect import dialect_of
from photon.logs.parse import read_events, read_events_of
from photon.logs.source import Head, head_of
from photon.pipeline.file import PipelineError, load_pipeline
from photon.pipeline.sections import ForeignLog, Limits
from tests.unit.test_logs_parse import HEADER, events, parse, reasons

EXPECTED = [("a", "k1", 1_000_000), ("b", "k2", 2_000_000)]


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (b"a;k1;1;x,y\nb;k2;2;\n", {"delimiter": ";"}),
        (b"a|k1|1|\nb|k2|2|y\n", {"delimiter": "|"}),
        (b"a\x01k1\x011\x01\nb\x01k2\x012\x01y\n", {"delimiter": "\x01"}),
        (b"'a','k1',1,'it''s, so'\nb,k2,2,\"\n", {"quote": "'"}),
        (b'a,k1,1,"said \\"so, yes\\""\nb,k2,2,y\\,z\n', {"escape": "\\"}),
        (b'a,k1,1,5" disk\nb,k2,2,"not closed\n', {"quote": ""}),
        (b"# begins\na,k1,1,x\n#ends, here\nb,k2,2,#3\n", {"comment": "#"}),
        (b"// begins\na,k1,1,x\nb,k2,2,//\n", {"comment": "//"}),
        ("a,k1,1,é\nb,k2,2,ü\n".encode("latin-1"), {"encoding": "latin-1"}),
        (b"a,k1,1,\xff\x80\x85\nb,k2,2,\xa0\n", {"encoding": "latin-1"}),
    ],
)
def test_the_settings_of_a_log_say_how_its_lines_are_read(data, settings):
    delimiter = str(settings.get("delimiter", ",")).encode()
    parsed = parse(data, header=HEADER.replace(b",", delimiter), **settings)
    assert events(parsed) == EXPECTED, reasons(parsed)
    assert parsed.dead_letters.num_rows == 0


def test_a_file_without_a_header_line_has_the_columns_that_the_settings_name():
    names = ("event_id", "ts", "key")
    log = ForeignLog(files="*", format="tsv", id="event_id", key="key", time="ts", header=names)
    data = b"a\t1\tk1\nb\t2\tk2\n"
    file = LogFile(7, "foreign", "clicks.tsv", 1, False, b"", 0, 0, b"")
    parsed = read_events(data, file, ByteRange(7, 0, len(data), 0, 2), log, Limits())
    assert events(parsed) == EXPECTED


@pytest.mark.parametrize(
    ("encoding", "raw", "note"),
    [
        ("utf-8", "é".encode(), "é"),
        ("latin-1", b"\xe9", "é"),
        ("latin-1", b"\x85", "\x85"),
        ("cp1252", b"\xe9 5 \x80", "é 5 €"),
        ("cp1252", b"\x84so\x93 \x85", "„so“ …"),
        ("cp1252", b"\x81\x8d\x8f\x90\x9d", "\x81\x8d\x8f\x90\x9d"),  # no characters of it
    ],
)
def test_a_value_is_the_text_that_was_written(encoding, raw, note):
    log = ForeignLog(files="*", format="csv", id="id", key="k", time="ts", encoding=encoding)
    raws = pa.array([b"a,k,1," + raw], pa.binary())
    table = parse_columns(raws, b"id,k,ts,note", log).table
    assert table["note"].to_pylist() == [note]


def test_names_in_another_encoding_are_read_too():
    parsed = parse(b"a,k1,1\n", header="event_id,clé,ts".encode("latin-1"), key="clé", encoding="latin-1")
    assert events(parsed) == EXPECTED[:1]


@pytest.mark.parametrize(
    ("encoding", "name"), [("latin-1", "Preis €"), ("cp1252", "Preis Ω"), ("latin-1", "Größe")]
)
def test_a_name_that_the_encoding_can_not_hold_is_read_as_any_other(encoding, name):
    names, data = ("event_id", "key", "ts", name), b"a,k1,1,x\nb,k2,2,y\n"
    log = ForeignLog(
        files="*", format="csv", id="event_id", key="key", time="ts", header=names, encoding=encoding
    )
    file = LogFile(7, "foreign", "clicks.csv", 1, False, b"", 0, 0, b"")
    parsed = read_events(data, file, ByteRange(7, 0, len(data), 0, 2), log, Limits())
    assert events(parsed) == EXPECTED


def head(data: bytes, **settings: object) -> object:
    log = ForeignLog(files="*", format="tsv", id="uid", key="uid", time="ts", **settings)
    return head_of(data, dialect_of(log), 2**20, final=False)


ZEEK = b"#separator \\x09\n#path\tconn\n#fields\tts\tuid\n#types\ttime\tstring\n1.5\tC1\n2.5\tC2\n"


def test_the_comments_before_a_header_are_passed_over():
    found = head(b"# made by us\n\n# again\n".replace(b"\n\n", b"\n") + b"ts\tuid\n1\tC1\n", comment="#")
    assert isinstance(found, Head)
    assert (found.header, found.header_bytes) == (b"ts\tuid", len(b"# made by us\n# again\nts\tuid\n"))


def test_the_comment_in_which_zeek_names_its_columns_is_the_header():
    found = head(ZEEK, comment="#")
    assert isinstance(found, Head)
    assert ZEEK[: found.header_bytes].endswith(b"\tuid\n")
    parsed = parse(ZEEK[found.header_bytes :], "tsv", found.header, id="uid", key="uid", comment="#")
    assert events(parsed) == [("C1", "C1", 1_500_000), ("C2", "C2", 2_500_000)]


def test_the_columns_that_the_settings_name_stand_for_the_comment_of_zeek():
    found = head(ZEEK, comment="#", header=("ts", "uid"))
    assert isinstance(found, Head)
    assert (found.header, found.header_bytes) == (b"", 0)


def test_a_file_is_known_by_a_record_and_not_by_comments_that_many_files_begin_with():
    assert head(ZEEK[: ZEEK.index(b"1.5")], comment="#") == "no record yet"
    one, other = (head(ZEEK.replace(b"C1", uid), comment="#") for uid in (b"C1", b"C7"))
    assert isinstance(one, Head)
    assert isinstance(other, Head)
    assert one.head_hash != other.head_hash


@pytest.mark.parametrize("data", [b"", b"#a\n#b\n", b"ts\tuid\n"])
def test_a_file_without_a_record_waits(data):
    assert head(data, comment="#") == "no record yet"


PIPELINE = """\
name: p
datacenters: {{east: {{logs: logs}}}}
primary: {{files: "q/*", format: csv, id: q, time: t{primary}}}
foreign: {{files: "c/*", format: {format}, id: c, key: q, time: t{more}}}
"""


def loaded(folder: Path, more: str, format: str = "csv") -> ForeignLog:
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE.format(primary="", more=", " + more, format=format))
    return load_pipeline(path).foreign


def test_the_pipeline_file_has_all_settings_of_a_format(tmp_path):
    log = loaded(
        tmp_path,
        'delimiter: ";", quote: "\'", escape: "\\\\", header: [c, q, t], comment: "#", encoding: latin-1, '
        "time_format: '%d.%m.%Y', time_zone: Europe/Berlin",
    )
    assert (log.delimiter, log.quote, log.escape, log.header) == (";", "'", "\\", ("c", "q", "t"))
    assert (log.comment, log.encoding) == ("#", "latin-1")
    assert (log.time_format, log.time_zone) == (("%d.%m.%Y",), "Europe/Berlin")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ('delimiter: ";;"', "foreign.delimiter: expected one ASCII character"),
        ('delimiter: "\\n"', "foreign.delimiter: expected one ASCII character"),
        ("quote: ','", "foreign.quote: expected another character than the delimiter"),
        ("escape: '\"'", "foreign.escape: expected another character"),
        ("header: [c, t]", "foreign.header: expected the names of all columns, also 'q'"),
        ("header: [c, q, t, c]", "foreign.header: expected the names of all columns"),
        ("comment: ''", "foreign.comment: expected what comment lines begin with"),
        ("comment: ',,'", "foreign.comment: expected another beginning"),
        (
            "time_format: '%H:%M'",
            "foreign.time_format: expected a format of strptime with day, month and year",
        ),
        ("time_format: '%b %d %H:%M:%S'", "foreign.time_format: expected a format of strptime"),
        ("time_format: ['%d/%m/%Y', '%Q']", "foreign.time_format: expected a format of strptime"),
        ("time_zone: Europe/Atlantis", "foreign.time_zone: expected a zone of the IANA database"),
        ("time_zone: ''", "foreign.time_zone: expected a zone of the IANA database"),
    ],
)
def test_settings_that_can_not_be_are_refused_with_what_was_expected(tmp_path, more, expected):
    with pytest.raises(PipelineError) as refused:
        loaded(tmp_path, more)
    assert expected in str(refused.value)


@pytest.mark.parametrize("more", ['delimiter: ";"', "header: [c, q, t]", "encoding: latin-1"])
def test_json_lines_take_no_settings_of_csv(tmp_path, more):
    with pytest.raises(PipelineError, match="expected it beside format: csv or tsv"):
        loaded(tmp_path, more, "jsonl")


@pytest.mark.parametrize(
    "again",
    [b"event_id,key,ts,note", b'"event_id","key","ts","note"', b'\xef\xbb\xbfevent_id,"key",ts,note\r'],
)
def test_a_header_line_within_a_file_is_passed_over_however_it_is_written(again):
    parsed = parse(b"a,k1,1,x\n" + again + b"\nb,k2,2,y\n")
    assert events(parsed) == EXPECTED
    assert parsed.dead_letters.num_rows == 0


@pytest.mark.parametrize(
    "other", [b"key,event_id,ts,note", b'"note","ts","key","event_id"', b"ts,note,event_id,key\r"]
)
@pytest.mark.parametrize("beside", [0, 100])
def test_values_behind_a_header_in_another_order_are_never_taken_for_others(other, beside):
    parsed = parse(b"f,k,1,x\n" * beside + b"a,k1,1,x\n" + other + b"\nk2,b,2,y\n" + HEADER + b"\nb,k2,2,y\n")
    assert events(parsed)[beside:] == EXPECTED
    assert [reason[:48] for reason in reasons(parsed)] == ["behind a header line that names the columns in a"]


def test_a_header_in_another_order_says_nothing_of_other_ranges():
    file = LogFile(7, "foreign", "c.csv", 1, False, HEADER, 0, 0, b"")
    log = ForeignLog(files="*", format="csv", id="event_id", key="key", time="ts")
    pieces = [
        (file, ByteRange(7, at, 0, 0, 0), data)
        for at, data in [(0, b"key,ts,note,event_id\n"), (50, b"a,k1,1,x\n")]
    ]
    (parsed,) = read_events_of(pieces, log, Limits())
    assert events(parsed) == EXPECTED[:1]


@pytest.mark.parametrize(
    "line", [b"event_id,key,ts,note2", b"event_id,event_id,ts,note", b"note key ts event_id12"]
)
def test_a_record_that_only_looks_like_a_header_is_a_record(line):
    parsed = parse(line + b"\na,k1,1,x\n")
    assert events(parsed) == EXPECTED[:1]
    assert parsed.dead_letters.num_rows == 1
