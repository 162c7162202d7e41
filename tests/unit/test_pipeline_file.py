import gzip
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from photon.logs.columns import check_columns
from photon.pipeline.cron import longest_pause
from photon.pipeline.file import PipelineError, identity_settings, load_pipeline, settings_hash
from photon.pipeline.location import S3Folder

GOOD = """\
name: clicks
datacenters:
  east: {logs: logs/east}
  west: {logs: /data/west, lake: lakes/w, state: states/w}
primary:
  files: "queries/**/*.csv"
  format: csv
  id: query_id
  time: time
foreign:
  files: "clicks/**/*.csv"
  format: csv
  id: [click_id, part]
  key: query
  time: time
  time_unit: ms
  columns: {amount: int64}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(text)
    return path


def problems(folder: Path, text: str) -> list[str]:
    """Load a faulty pipeline file, and return its problems, each as line and message."""
    path = write(folder, text)
    with pytest.raises(PipelineError) as error:
        load_pipeline(path)
    assert str(error.value).splitlines() == list(error.value.problems)
    return [problem.removeprefix(f"{path}:") for problem in error.value.problems]


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_a_good_file_is_read_with_its_defaults(tmp_path):
    pipeline = load_pipeline(write(tmp_path, GOOD))
    assert pipeline.foreign.id == ("click_id", "part")
    assert pipeline.primary.id == ("query_id",)
    assert pipeline.primary.time_unit == "s"
    assert pipeline.registry.endpoints == "local"
    assert pipeline.home.takeover_delay == timedelta(seconds=2)
    assert pipeline.adapter == "photon.adapters:merge_columns"


def test_relative_paths_are_relative_to_the_file_and_lake_and_state_have_defaults(tmp_path, monkeypatch):
    write(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path.parent)
    pipeline = load_pipeline(f"{tmp_path.name}/pipeline.yaml")
    east, west = pipeline.datacenters["east"], pipeline.datacenters["west"]
    assert (east.logs, east.lake, east.state) == tuple(
        tmp_path / place for place in ("logs/east", "lake/east", "state/east")
    )
    assert (west.logs, west.lake, west.state) == (
        Path("/data/west"),
        tmp_path / "lakes/w",
        tmp_path / "states/w",
    )
    assert pipeline.registry_folder == tmp_path / "state" / "registry"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: clicks", "name: Clicks!", "1: name: expected lower-case letters, digits, _ and -"),
        ("name: clicks\n", "", "1: name: missing; expected lower-case letters"),
        ("east:", "East:", "3: datacenters.East: expected a name of lower-case letters"),
        ("east: {logs: logs/east}", "east: {}", "3: datacenters.east.logs: missing; expected the folder"),
        (
            "{logs: logs/east}",
            "{logs: logs/east, lakes: x}",
            "3: datacenters.east.lakes: unknown key; did you mean lake?",
        ),
        (
            "logs/east",
            "gs://bucket/east",
            "3: datacenters.east.logs: expected a local folder, or a URL such as s3://bucket/folder: gs",
        ),
        (
            "lake: lakes/w",
            "lake: gs://lakes/w",
            "4: datacenters.west.lake: expected a local folder, or a URL such as s3://bucket/folder: gs",
        ),
        (
            "lake: lakes/w",
            "lake: s3://b/w",
            "4: datacenters.west.lake: expected a URL such as s3://bucket/folder, without ?, # and *",
        ),
        (
            "lakes/w",
            "lake/east",
            "4: datacenters.west.lake: expected a folder of its own, got that of datacenters.east.lake",
        ),
        ("states/w", "./state/east", "4: datacenters.west.state: expected a folder of its own"),
        ("states/w", "lakes/w", "4: datacenters.west.state: expected a folder of its own"),
        (
            "format: csv",
            "format: xml",
            "7: primary.format: expected csv, tsv, jsonl, combined, common, logfmt, or module:Class of a "
            "format of your own, got 'xml'",
        ),
        (
            "format: csv",
            "format: csv\n  encoding: utf-16",
            "8: primary.encoding: expected utf-8, latin-1 or cp1252; for UTF-16 convert the files: iconv -f",
        ),
        (
            "id: query_id",
            "id: [a, a]",
            "8: primary.id: expected a column's name, or a list of different ones, got ['a', 'a']",
        ),
        ("id: query_id", "id: []", "8: primary.id: expected a column's name, or a list"),
        (
            "id: query_id",
            "id: on",
            "8: primary.id: expected a column's name, or a list of different ones, got true",
        ),
        (
            "  time: time\nforeign",
            "  time: 5\nforeign",
            "9: primary.time: expected a column's name, or a list of two",
        ),
        *(
            (
                "  time: time\nforeign",
                f"  time: {wrong}\nforeign",
                "9: primary.time: expected a column's name",
            )
            for wrong in ("[a, b, c]", "[time, time]", "[]")
        ),
        (
            "clicks/**/*.csv",
            "/var/*.csv",
            "11: foreign.files: expected a glob below the datacenter's logs folder",
        ),
        (
            "clicks/**/*.csv",
            "../*.csv",
            "11: foreign.files: expected a glob below the datacenter's logs folder",
        ),
        (
            "clicks/**/*.csv",
            "queries/**/*.csv",
            "11: foreign.files: expected other files than those of primary.files",
        ),
        (
            "  key: query\n",
            "",
            "10: foreign.key: missing; expected the column that holds the id of the primary event",
        ),
        (
            "key: query",
            "key: [a, b]",
            "14: foreign.key: expected as many columns as make the primary's id: 1",
        ),
        (
            "time_unit: ms",
            "time_unit: fortnights",
            "16: foreign.time_unit: expected s, ms, us, ns or iso8601, got 'fortnights'",
        ),
        ("time_unit: ms", "time_units: ms", "16: foreign.time_units: unknown key; did you mean time_unit?"),
        (
            "amount: int64",
            'amount: "decimal(4, 5)"',
            "17: foreign.columns.amount: expected string, int64, float64",
        ),
        ("amount: int64", "amount: int33", "17: foreign.columns.amount: expected string, int64, float64"),
    ],
)
def test_what_is_wrong_is_named_with_line_key_and_what_was_expected(tmp_path, old, new, expected):
    found = problems(tmp_path, changed(old, new))
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "retry: {unjoinable_after: 250 parsecs}",
            "retry.unjoinable_after: expected a duration: a number and one of us, ms, s",
        ),
        (
            "retry: {unjoinable_after: 5}",
            "retry.unjoinable_after: expected a duration: a number and one of us, ms, s",
        ),
        ("shift: {idle: 0s}", "shift.idle: expected a duration longer than none"),
        ("shift: {idle: 999999999999d}", "shift.idle: expected a duration of at most"),
        ("limits: {pending_events: 0}", "limits.pending_events: expected at least 1, got 0"),
        ("limits: {workers: many}", "limits.workers: expected a whole number, got 'many'"),
        (
            "limits: {line: 1 mile}",
            "limits.line: expected a size: a whole number and one of B, KiB, MiB, GiB",
        ),
        ("limits: {line: 0}", "limits.line: expected a size of at least 1B, got 0"),
        ("limits: {batch_foreign: 9GiB}", "limits.batch_foreign: expected a size of at most 1GiB"),
        (
            "adapter: merge",
            "adapter: expected module:attribute, such as photon.adapters:merge_columns, got 'merge'",
        ),
        (
            "registry: {endpoints: locl}",
            "registry.endpoints: expected `local` or a list of {url, region}, got 'locl'",
        ),
        (
            "registry: {endpoints: {url: 'http://a'}}",
            "registry.endpoints: expected `local` or a list of {url, region}, got {'url': 'http://a'}",
        ),
        ("registry: {endpoints: []}", "registry.endpoints: expected `local`, or 1, 3 or 5 endpoints"),
        (
            "registry: {endpoints: [{url: http://a}, {url: http://b}, {url: http://A/}]}",
            "registry.endpoints: expected endpoints with different URLs: each is to be a store of its own",
        ),
        (
            "registry: {endpoints: [{url: http://a}, {url: http://b}]}",
            "registry.endpoints: expected `local`, or 1, 3 or 5",
        ),
        ("registry: {endpoints: [{url: ftp://a}]}", "registry.endpoints.0.url: expected an address such as"),
        (
            "registry: {endpoints: [{url: 'http://a:99999'}]}",
            "registry.endpoints.0.url: expected an address such as",
        ),
        (
            "registry: {endpoints: [{url: 'http://user:secret@a'}]}",
            "registry.endpoints.0.url: expected an address such as",
        ),
        (
            "registry: {endpoints: [{url: 'http://a:abc'}]}",
            "registry.endpoints.0.url: expected an address such as",
        ),
        (
            "registry: {endpoints: [{url: 'http://:80'}]}",
            "registry.endpoints.0.url: expected an address such as",
        ),
        ("registry: {keep_days: 36501}", "registry.keep_days: expected at most 36500, got 36501"),
        (
            "registry: {endpoints: [{url: 'http://a', profile: ''}]}",
            "registry.endpoints.0.profile: expected the name of a profile in AWS's configuration files, "
            "got ''",
        ),
        (
            "registry: {endpoints: [{url: 'http://a', role: photon}]}",
            "registry.endpoints.0.role: expected the ARN of a role, such as arn:aws:iam::",
        ),
        ("registry: {endpoints: [{region: x}]}", "registry.endpoints.0.url: missing"),
        (
            "registry: {endpoints: [{url: http://a, zone: x}]}",
            "registry.endpoints.0.zone: unknown key; there are url, region",
        ),
        ("tailing: 5", "tailing: expected a mapping, got 5"),
        ("file: x", "file: unknown key"),
        ("name: again", "name: this key was there before, in line 1"),
        (
            "limits: {line_bytes: 1MiB}",
            "limits.line_bytes: unknown key; there are line, batch_foreign, batch_events",
        ),
        ("shift: {lenght: 1m}", "shift.lenght: unknown key; did you mean length?"),
        (
            "unmatched: {columns: 5}",
            "unmatched.columns: expected a list of columns of the primary log, whose names differ",
        ),
        (
            "unmatched: {columns: [user, User]}",
            "unmatched.columns: expected a list of columns of the primary log, whose names differ",
        ),
        (
            "unmatched: {columns: [user, Reason]}",
            "unmatched.columns: expected other names than _datacenter, _epoch, _batch,",
        ),
        (
            "registry: {keep_days: 1}\nunmatched: {after: 24h}",
            "unmatched.after: expected less than registry.keep_days, 1d: older events join nothing",
        ),
        ("colour: red", "colour: unknown key; there are name, datacenters, primary, foreign, adapter"),
    ],
)
def test_what_is_wrong_with_the_other_settings_is_named_too(tmp_path, more, expected):
    found = problems(tmp_path, GOOD + more + "\n")
    assert len(found) == 1, found
    assert found[0].partition(": ")[2].startswith(expected)


@pytest.mark.parametrize(
    "key",
    [
        "registry.keep_days",
        "limits.workers",
        "limits.pending_events",
        "limits.batch_events",
        "backfill.first_look_days",
    ],
)
@pytest.mark.parametrize("value", ["true", "yes", "2.0"])
def test_what_is_no_whole_number_is_taken_for_none(tmp_path, key, value):
    *parts, name = key.split(".")
    more = (
        "".join(f"{'  ' * i}{part}:\n" for i, part in enumerate(parts))
        + f"{'  ' * len(parts)}{name}: {value}\n"
    )
    (found,) = problems(tmp_path, GOOD + more)
    assert f"{key}: expected a whole number, got" in found


def test_all_problems_are_told_at_once_in_the_order_of_the_lines(tmp_path):
    found = problems(
        tmp_path, changed("format: csv", "format: xml") + "retry: {unjoinable_after: x, max: y}\nlast: 1\n"
    )
    assert [problem.split(":")[0] for problem in found] == ["7", "18", "18", "19"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1: expected keys such as name, datacenters, primary and foreign, got nothing"),
        ("just words", "1: expected keys such as name, datacenters, primary and foreign"),
        ("- a\n- b\n", "1: expected keys such as name, datacenters, primary and foreign"),
        ("name: x\n  bad: [\n", "2: not valid YAML"),
        ("name: \x01\n", "1: not valid YAML"),
        ("[" * 2_000, "1: nested more than 20 levels deep"),
        ("--- a\n--- b\n", "2: not valid YAML"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text, expected):
    assert problems(tmp_path, text)[0].startswith(expected)


def test_an_anchor_that_holds_itself_is_refused(tmp_path):
    assert any("nested more than" in problem for problem in problems(tmp_path, "name: &a [*a]\n"))


def test_a_file_that_can_not_be_read_is_named(tmp_path):
    with pytest.raises(PipelineError, match=r"none\.yaml: cannot be read: No such file"):
        load_pipeline(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PipelineError, match=r"binary\.yaml: expected a YAML file in UTF-8"):
        load_pipeline(tmp_path / "binary.yaml")


def test_settings_that_make_ids_and_times_change_the_hash_and_others_do_not(tmp_path):
    before = settings_hash(load_pipeline(write(tmp_path, GOOD)))
    for old, new in [
        ("logs/east", "elsewhere"),
        ("int64", "float64"),
        ("clicks/**", "c/**"),
        ("key: query", "key: q"),
    ]:
        assert settings_hash(load_pipeline(write(tmp_path, changed(old, new)))) == before
    for old, new in [
        ("part]", "page]"),
        ("time_unit: ms", "time_unit: us"),
        ("key: query", "key: query\n  id_codec: server_process_timestamp"),
    ]:
        assert settings_hash(load_pipeline(write(tmp_path, changed(old, new)))) != before
    assert settings_hash(load_pipeline(write(tmp_path, GOOD + "registry: {keep_days: 4}"))) == before
    assert identity_settings(load_pipeline(write(tmp_path, GOOD)))["id"] == ["click_id", "part"]


def with_logs(folder: Path, clicks: bytes, text: str = GOOD) -> Path:
    for name, data in [("queries/q.csv", b"query_id,time\n"), ("clicks/c.csv", clicks)]:
        path = folder / "logs/east" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return write(folder, text.replace("/data/west", "logs/west"))


def test_columns_that_are_in_no_header_are_named_with_the_file_and_what_it_has(tmp_path):
    path = with_logs(tmp_path, b"click_id,part,query,when,amount\n1,1,1,1,1\n")
    log = tmp_path / "logs/east/clicks/c.csv"
    assert check_columns(load_pipeline(path)) == [
        f"{path}:15: foreign.time: expected a column of {log}, got 'time';"
        " it has click_id, part, query, when, amount"
    ]


def test_every_kind_of_column_is_looked_for(tmp_path):
    path = with_logs(tmp_path, b"a\xc3\xa4,b\n")
    keys = [problem.split(": ")[1] for problem in check_columns(load_pipeline(path))]
    assert keys == ["foreign.id", "foreign.id", "foreign.key", "foreign.time", "foreign.columns.amount"]


def test_a_column_that_only_a_rotated_file_has_is_there(tmp_path):
    path = with_logs(tmp_path, b"click_id,part,query,time\n")
    old = tmp_path / "logs/east/clicks/old.csv.gz"
    old.write_bytes(gzip.compress(b"\xef\xbb\xbfclick_id,amount\r\n"))
    os.utime(old, (1, 1))
    assert check_columns(load_pipeline(path)) == []


def test_logs_that_are_not_there_or_have_no_whole_header_are_not_checked(tmp_path):
    assert check_columns(load_pipeline(write(tmp_path, GOOD))) == []
    assert check_columns(load_pipeline(with_logs(tmp_path, b"half a hea"))) == []


def test_json_lines_have_no_header_to_check(tmp_path):
    text = GOOD.replace("format: csv", "format: jsonl")
    assert check_columns(load_pipeline(with_logs(tmp_path, b"{}\n", text))) == []


@pytest.mark.parametrize("cron", ["17 * * * *", "*/5 0-6,22 1 1-12/3 0", "0 0 1 1 *"])
def test_times_of_cron_are_taken(tmp_path, cron):
    pipeline = load_pipeline(write(tmp_path, GOOD + f'verification: {{cron: "{cron}"}}\n'))
    assert pipeline.verification.cron == cron


@pytest.mark.parametrize(
    ("cron", "hours"),
    [
        ("*/15 * * * *", 0.25),
        ("30 2,6 * * *", 20),
        ("5,55 2,6 * * *", 20 - 50 / 60),
        ("0 6 * * 1", 7 * 24),
        ("0 0 28 * 0", 7 * 24),
    ],
)
def test_a_schedule_is_late_after_its_longest_pause(cron, hours):
    assert longest_pause(cron) == timedelta(hours=hours)


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "hourly",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "5/2 * * * *",
        "9-3 * * * *",
        "*/0 * * * *",
    ],
)
def test_what_is_no_time_of_cron_is_refused(tmp_path, cron):
    with pytest.raises(PipelineError, match=r"verification\.cron: expected five fields of cron"):
        load_pipeline(write(tmp_path, GOOD + f'verification: {{cron: "{cron}"}}\n'))


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "0 0 30-31 2 *", "0 0 31 4,6,9,11 *"])
def test_a_day_that_never_comes_is_refused(tmp_path, cron):
    with pytest.raises(PipelineError, match="expected a day that comes in one of its months"):
        load_pipeline(write(tmp_path, GOOD + f'verification: {{cron: "{cron}"}}\n'))


def test_a_lake_on_s3_has_the_endpoint_of_its_datacenter_and_no_credentials(tmp_path):
    on_s3 = "lake: s3://lakes//w/, storage: {endpoint_url: http://127.0.0.1:9000, region: eu-1}"
    pipeline = load_pipeline(write(tmp_path, changed("lake: lakes/w", on_s3)))
    lake = pipeline.datacenters["west"].lake
    assert lake == S3Folder("lakes", "w", "http://127.0.0.1:9000", "eu-1")
    assert str(lake / "joined_events") == "s3://lakes/w/joined_events"


@pytest.mark.parametrize(
    ("lake", "is_imported"), [("lake: lakes/w", False), ("lake: s3://lakes/w", True)], ids=["disk", "S3"]
)
def test_the_library_for_s3_is_there_before_threads_would_import_it_side_by_side(tmp_path, lake, is_imported):
    loads = "import sys, photon.pipeline.file as file; file.load_pipeline(sys.argv[1])"
    script = f"{loads}; print('boto3' in sys.modules)"
    command = [sys.executable, "-c", script, write(tmp_path, changed("lake: lakes/w", lake))]
    assert subprocess.check_output(command, text=True) == f"{is_imported}\n"


def test_segments_are_with_the_state_or_with_a_lake_on_s3_or_where_the_file_says(tmp_path):
    def work(said):
        west = load_pipeline(write(tmp_path, changed("lake: lakes/w", said))).datacenters["west"]
        return west.work_of("e1"), west.state, west.work_place

    assert len(set(work("lake: lakes/w"))) == 1
    assert str(work("lake: s3://lakes/w")[2]) == "s3://lakes/w/_photon"
    assert work("lake: lakes/w, work: shared")[2] == tmp_path / "shared"
    assert str(work("lake: s3://lakes/w")[0]) == "s3://lakes/w/_photon/e1"
    assert str(work("lake: lakes/w, work: s3://lakes/w")[0]) == "s3://lakes/w/e1"
    assert work("lake: s3://lakes/w, work: shared")[0] == tmp_path / "shared" / "e1"
    (refused,) = problems(tmp_path, changed("lake: lakes/w", "lake: lakes/w, work: lakes/w"))
    assert (
        "4: datacenters.west.work: expected a folder of its own, got that of datacenters.west.lake" in refused
    )


def test_a_bucket_of_two_endpoints_is_refused(tmp_path):
    def on(port):
        return f"lake: s3://lakes/{port}, storage: {{endpoint_url: http://127.0.0.1:{port}}}"

    said = changed("lake: lakes/w", on(9000)).replace("logs: logs/east", f"logs: logs/east, {on(9001)}")
    (refused,) = problems(tmp_path, said)
    assert "4: datacenters.west.lake: expected one storage for the bucket lakes, got two" in refused


FED = """\
name: sales
datacenters: {east: {logs: logs/east}}
primary: {files: "clicks/*.jsonl", format: jsonl, id: _event_id, time: _event_time, watermark: feed}
foreign: {files: "sales/*.jsonl", format: jsonl, id: sale, key: click, time: time}
"""


def test_a_log_that_is_fed_lies_in_one_folder_below_the_logs(tmp_path):
    pipeline = load_pipeline(write(tmp_path, FED))
    assert pipeline.primary.fed_folder(tmp_path) == tmp_path / "clicks"
    assert pipeline.primary.fed_folder(S3Folder("b", "logs")) == S3Folder("b", "logs/clicks")
    unfed = load_pipeline(write(tmp_path, GOOD))
    assert unfed.primary.fed_folder(tmp_path) is None


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("clicks/*.jsonl", "*/*.jsonl", "primary.files: expected the files of one folder"),
        ("clicks/*.jsonl", "clicks/1*.jsonl", "primary.files: expected the files of one folder"),
        ("_event_time", "at", "primary.time: expected _event_time"),
        ("format: jsonl, id: _", "format: csv, id: _", "primary.format: expected jsonl beside"),
    ],
)
def test_a_log_that_is_fed_is_read_as_a_feed_writes_it(tmp_path, old, new, problem):
    assert problem in problems(tmp_path, FED.replace(old, new))[0]
