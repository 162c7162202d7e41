"""`photon init`: what it proposes for logs that nobody has described, and what it says of odd ones."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from photon.pipeline.file import load_pipeline
from photon.profile.proposal import proposed_name
from tests.e2e.real_logs import RealLogs
from tests.support.commands import photon

QUERIES = [{"query_id": f"q{i}", "time": f"2026-01-05T10:00:{i % 60:02}Z", "user": i % 3} for i in range(200)]
CLICKS = [
    {"click_id": f"c{i}", "query_id": f"q{i * 7 % 220}", "ts": 1_767_607_200_000 + i, "rank": i % 9}
    for i in range(100)
]
Rows = list[dict[str, Any]]


def json_lines(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def csv_lines(path: Path, rows: Rows, delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Queries as JSON lines and clicks as CSV, in the folder where commands are run."""
    monkeypatch.chdir(tmp_path)
    json_lines(tmp_path / "logs" / "queries" / "a.jsonl", QUERIES)
    csv_lines(tmp_path / "logs" / "clicks" / "a.csv", CLICKS)
    return tmp_path / "logs"


def init(*options: str, primary: str = "logs/queries", foreign: str = "logs/clicks") -> Result:
    return photon("init", primary, foreign, *options)


def test_the_pipeline_file_of_two_folders_names_their_ids_keys_times_and_units(logs: Path) -> None:
    done = init("--json")
    assert done.exit_code == 0, done.output
    pipeline = load_pipeline("pipeline.yaml")
    assert pipeline.datacenters["here"].logs == logs
    primary, foreign = pipeline.primary, pipeline.foreign
    assert (primary.files, primary.format) == ("queries/**/*.jsonl", "jsonl")
    assert (primary.id, primary.time, primary.time_unit) == (("query_id",), ("time",), "iso8601")
    assert (foreign.files, foreign.format) == ("clicks/**/*.csv", "csv")
    assert (foreign.id, foreign.key) == (("click_id",), ("query_id",))
    assert (foreign.time, foreign.time_unit) == (("ts",), "ms")
    told = json.loads(done.stdout)
    expected = sum(click["query_id"] in {query["query_id"] for query in QUERIES} for click in CLICKS)
    assert told["trial"]["joined"] == expected
    assert told["trial"]["without_primary"] == len(CLICKS) - expected
    assert told["trial"]["example"]["primary_user"] == 0


def test_the_next_step_is_named_where_a_join_would_go_on(logs: Path) -> None:
    assert "pipeline.yaml is written. Next: photon join pipeline.yaml" in init().stdout


def test_the_next_step_follows_logs_that_were_written_to_just_now(logs: Path) -> None:
    """Broken variant: --complete first, which ends the join of a live log and gives its events up."""
    assert "Next: photon join pipeline.yaml, which follows the logs until Ctrl-C." in init().stdout


def test_the_next_step_takes_logs_that_are_at_rest_for_complete(logs: Path) -> None:
    for path in logs.glob("*/*"):
        os.utime(path, (1_767_607_200, 1_767_607_200))
    assert "Next: photon join pipeline.yaml --complete. If lines are still added" in init().stdout


def test_what_a_join_would_refuse_is_told_in_place_of_a_next_step(logs: Path) -> None:
    os.utime(logs / "clicks" / "a.csv", (1_767_607_200, 1_767_607_200))
    for number in range(3):  # the newest files have another name for it
        text = (logs / "clicks" / "a.csv").read_text().replace("click_id", "click")
        (logs / "clicks" / f"b{number}.csv").write_text(text)
    done = init("--foreign-id", "click_id")
    assert done.exit_code == 3
    assert "Next:" not in done.stdout
    assert "expected a column of" in done.stderr
    assert "got 'click_id'" in done.stderr


def test_what_was_joined_before_is_to_be_removed_before_the_next_step(logs: Path) -> None:
    Path("state/here").mkdir(parents=True)
    told = init("--force").stdout
    assert f"Next, to begin anew: rm -rf {logs.parent}/lake/here {logs.parent}/state/here" in told


def test_a_pipeline_file_that_is_there_is_kept_unless_force_is_said(logs: Path) -> None:
    Path("pipeline.yaml").write_text("mine")
    done = init()
    assert done.exit_code == 2
    assert "--force" in done.output
    assert Path("pipeline.yaml").read_text() == "mine"
    assert init("--force").exit_code == 0
    assert load_pipeline("pipeline.yaml").name == "queries_clicks"


@pytest.mark.parametrize(
    ("primary", "foreign", "name"),
    [
        ("logs/queries", "logs/clicks/", "queries_clicks"),
        ("logs/Queries/*.jsonl", "logs/ad-clicks/**/*.csv", "queries_ad_clicks"),
        ("logs/queries.csv.gz", "/var/log/clicks.csv", "queries_clicks"),
        ("logs/a*.csv", "logs/b*.csv", "joined"),
        ("logs/2026/queries", "logs/2026", "queries_2026"),
        ("logs/2026", "logs/clicks", "joined"),
        (".", "*.csv", "joined"),
    ],
)
def test_the_name_of_a_pipeline_is_made_of_its_two_logs(primary: str, foreign: str, name: str) -> None:
    assert proposed_name(primary, foreign) == name


def test_a_name_that_is_none_is_told_with_what_is_expected(logs: Path) -> None:
    done = init("--name", "My clicks")
    assert done.exit_code == 2
    assert "--name 'My clicks': expected a small letter" in done.output
    assert not Path("pipeline.yaml").exists()


def test_a_second_pipeline_in_a_folder_has_a_name_tables_and_a_state_of_its_own(logs: Path) -> None:
    assert init("--name", "first").exit_code == 0
    refused = init()
    assert refused.exit_code == 2
    assert "--output queries_clicks.yaml writes another beside it" in refused.output
    assert init("-o", "queries_clicks.yaml").exit_code == 0
    first, second = load_pipeline("pipeline.yaml"), load_pipeline("queries_clicks.yaml")
    assert (first.name, second.name) == ("first", "queries_clicks")
    assert first.datacenters["here"].lake == logs.parent / "lake" / "here"
    assert second.datacenters["here"].lake == logs.parent / "lake" / "queries_clicks" / "here"
    assert second.datacenters["here"].state == logs.parent / "state" / "queries_clicks" / "here"
    assert init("--name", "first", "--force").exit_code == 0
    assert load_pipeline("pipeline.yaml") == first


def test_two_pipelines_in_a_folder_never_have_one_name(logs: Path) -> None:
    assert init("-o", "a.yaml").exit_code == 0
    for name in ("queries_clicks", "queries-clicks"):
        refused = init("-o", "b.yaml", "--name", name, "--force")
        assert refused.exit_code == 2
        assert f"the pipeline of {logs.parent}/a.yaml is called queries_clicks" in refused.output
        assert "say --name NAME" in refused.output
    assert init("-o", "b.yaml", "--dry-run").exit_code == 0
    assert not Path("b.yaml").exists()


@pytest.mark.parametrize("name", ["here", "registry"])
def test_a_name_whose_folders_would_lie_in_those_of_another_pipeline_is_refused(
    logs: Path, name: str
) -> None:
    assert init("-o", "a.yaml").exit_code == 0
    refused = init("-o", "b.yaml", "--name", name)
    assert refused.exit_code == 2
    assert f"is a folder of {logs.parent}/a.yaml" in refused.output
    assert "say another --name" in refused.output


def test_what_another_pipeline_has_joined_is_no_place_for_a_new_one(logs: Path) -> None:
    Path("state/here").mkdir(parents=True)
    Path("settings.yaml").write_text("debug: true\n")
    refused = init()
    assert refused.exit_code == 2
    assert f"{logs.parent}/state/here is there already" in refused.output


def test_gzip_and_tabs_are_read_as_well(logs: Path) -> None:
    csv_lines(logs / "clicks" / "a.csv", CLICKS, "\t")
    plain = (logs / "clicks" / "a.csv").read_bytes()
    (logs / "clicks" / "a.csv").unlink()
    (logs / "clicks" / "a.tsv.gz").write_bytes(gzip.compress(plain))
    assert init().exit_code == 0
    assert load_pipeline("pipeline.yaml").foreign.format == "tsv"


def test_duplicates_and_late_lines_are_counted(logs: Path) -> None:
    json_lines(logs / "queries" / "a.jsonl", [QUERIES[10], *QUERIES[:5], QUERIES[0]])
    seen = json.loads(init("--json").stdout)["trial"]["primary"]
    assert (seen["events"], seen["duplicates"]) == (7, 1)
    assert seen["out_of_order"] == pytest.approx(2 / 7)
    assert seen["latest_by_seconds"] == 10


def test_records_of_one_id_that_say_something_else_are_told(logs: Path) -> None:
    csv_lines(logs / "clicks" / "a.csv", [*CLICKS, CLICKS[3]])
    done = init("--foreign-id", "rank")
    assert "92 duplicates (91 of them with other content)" in done.stdout


def test_any_record_of_an_id_whose_primary_is_there_joins(logs: Path) -> None:
    rows = [{**CLICKS[0], "query_id": "nowhere"}, {**CLICKS[1], "query_id": ""}, *CLICKS[:2]]
    csv_lines(logs / "clicks" / "a.csv", rows)
    trial = json.loads(init("--json", "--foreign-id", "click_id").stdout)["trial"]
    assert (trial["joined"], trial["without_key"], trial["without_primary"]) == (2, 0, 0)


def test_each_datacenter_is_named_with_its_folder(logs: Path) -> None:
    logs.rename("east")
    Path("west").mkdir()
    done = init("-d", "east=east", "-d", "west=west", primary="queries", foreign="clicks")
    assert done.exit_code == 0, done.output
    assert list(load_pipeline("pipeline.yaml").datacenters) == ["east", "west"]


def test_the_real_logs_are_described_and_join_as_their_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RealLogs.open_or_make(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    done = init(
        "--json",
        primary=str(real.folder / "primary_ssl.csv.gz"),
        foreign=str(real.folder / "secondary_events.csv.gz"),
    )
    assert done.exit_code == 0, done.output
    pipeline = load_pipeline("pipeline.yaml")
    assert (pipeline.primary.id, pipeline.primary.time) == (("key",), ("event_ts",))  # not the counter `seq`
    assert (pipeline.foreign.id, pipeline.foreign.key) == (("event_id",), ("key",))
    assert json.loads(done.stdout)["trial"]["joined"] == real.joined


def without(rows: Rows, *names: str) -> Rows:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def no_folder(logs: Path) -> None:
    (logs / "clicks" / "a.csv").unlink()
    (logs / "clicks").rmdir()


def empty_folder(logs: Path) -> None:
    (logs / "clicks" / "a.csv").unlink()


def empty_file(logs: Path) -> None:
    (logs / "clicks" / "a.csv").write_text("")


def binary_file(logs: Path) -> None:
    (logs / "clicks" / "a.csv").write_bytes(random.Random(1).randbytes(5_000))


def cut_gzip(logs: Path) -> None:
    empty_folder(logs)
    (logs / "clicks" / "a.csv.gz").write_bytes(gzip.compress(b"click_id,query_id,ts\n" * 50)[:-12])


def several_formats(logs: Path) -> None:
    json_lines(logs / "clicks" / "b.jsonl", CLICKS)


def pairs_with_colons(logs: Path) -> None:
    (logs / "clicks" / "a.csv").write_text("time:2026-01-05T10:00:00Z click:c1 query:q1\n")


def json_array(logs: Path) -> None:
    (logs / "clicks" / "a.csv").write_text(json.dumps(CLICKS))


def gzip_by_another_name(logs: Path) -> None:
    file = logs / "clicks" / "a.csv"
    file.write_bytes(gzip.compress(file.read_bytes()))


def utf16(logs: Path) -> None:
    text = "".join(json.dumps(row) + "\n" for row in CLICKS)
    (logs / "clicks" / "a.csv").write_bytes(text.encode("utf-16"))


def json_over_lines(logs: Path) -> None:
    text = "\n".join(json.dumps(row, indent=2) for row in CLICKS)
    (logs / "clicks" / "a.csv").write_text(text)


def text_in_brackets(logs: Path) -> None:
    (logs / "clicks" / "a.csv").write_text(
        "[2026-01-05T10:00:00Z] click c1\n[2026-01-05T10:00:01Z] click c2\n"
    )


def key_twice(logs: Path) -> None:
    file = logs / "clicks" / "a.csv"
    file.write_text(file.read_text().replace("rank", "query_id", 1))


def no_id(logs: Path) -> None:
    csv_lines(logs / "clicks" / "a.csv", without(CLICKS, "click_id"))


def nested_fields(logs: Path) -> None:
    empty_folder(logs)
    rows = [{"click": {"id": row["click_id"], "query": row["query_id"]}, "ts": row["ts"]} for row in CLICKS]
    json_lines(logs / "clicks" / "a.jsonl", rows)


def test_ids_and_times_in_objects_are_found(logs: Path) -> None:
    nested_fields(logs)
    done = init("--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert "  id: click.id\n  key: click.query\n" in told["pipeline"]
    assert told["trial"]["joined"] > 0


def test_a_file_that_begins_within_a_line_is_known_by_the_lines_behind_it(logs: Path) -> None:
    empty_folder(logs)
    json_lines(logs / "clicks" / "a.jsonl", CLICKS)
    whole = (logs / "clicks" / "a.jsonl").read_text()
    for rest in ('{"click_id": "c', '_id": "q1"}'):
        (logs / "clicks" / "a.jsonl").write_text(f"{rest}\n{whole}")
        told = json.loads(init("--json", "--dry-run").stdout)
        assert "format: jsonl\n  id: click_id" in told["pipeline"]
        assert sum(told["trial"]["foreign"]["dead_letters"].values()) == 1


def no_time(logs: Path) -> None:
    csv_lines(logs / "clicks" / "a.csv", without(CLICKS, "ts"))


def keys_that_never_match(logs: Path) -> None:
    csv_lines(logs / "clicks" / "a.csv", [{**row, "query_id": f"x{row['click_id']}"} for row in CLICKS])


@pytest.mark.parametrize(
    ("spoil", "named", "expected", "remedy"),
    [
        (no_folder, "there is no", "expected a folder", "a glob in quotes"),
        (empty_folder, "no file matches", "the folder has no file", "name a folder with logs"),
        (empty_file, "none of the 1 files", "empty", ""),
        (
            binary_file,
            "a.csv holds binary data",
            "expected JSON lines, CSV, TSV, an access log or logfmt",
            "give a glob",
        ),
        (cut_gzip, "a.csv.gz", "ends early", ""),
        (several_formats, "b.jsonl is jsonl", "expected one", "give a glob"),
        (
            pairs_with_colons,
            "a.csv begins with 'time:2026",
            "expected JSON lines",
            "text of another kind: a class",
        ),
        (json_array, "a.csv is one JSON array", "one object a line", "`jq -c '.[]'`"),
        (json_over_lines, "a.csv has a JSON object over several lines", "one object a line", "`jq -c .`"),
        (
            text_in_brackets,
            "a.csv begins with '[2026-01-05",
            "expected JSON lines",
            "text of another kind: a class",
        ),
        (gzip_by_another_name, "a.csv is gzip", "expected JSON lines", "rename it, so that it ends in .gz"),
        (utf16, "a.csv is UTF-16", "expected JSON lines", "`iconv -f UTF-16 -t UTF-8 "),
    ],
)
def test_logs_that_can_not_be_joined_are_told_with_what_was_expected_and_what_to_do(
    logs: Path, spoil: Callable[[Path], None], named: str, expected: str, remedy: str
) -> None:
    spoil(logs)
    done = init()
    assert done.exit_code == 2, done.output
    for said in (named, expected, remedy):
        assert said in done.stderr
    assert not Path("pipeline.yaml").exists()


@pytest.mark.parametrize(
    ("spoil", "named", "expected", "option"),
    [
        (
            key_twice,
            "a.csv: several of its columns are called 'query_id'",
            "Expected a key",
            "--foreign-key",
        ),
        (no_id, "no column", "is unique and looks like an id", "--foreign-id"),
        (no_time, "foreign: no column looks like a time", "ISO 8601", "--foreign-time"),
        (keys_that_never_match, "no column of the foreign log", "Expected a key", "--foreign-key"),
    ],
)
def test_what_nobody_can_tell_from_the_logs_is_asked_for_with_the_option_that_says_it(
    logs: Path, spoil: Callable[[Path], None], named: str, expected: str, option: str
) -> None:
    spoil(logs)
    done = init()
    assert done.exit_code == 1, done.output
    for said in (named, expected, option):
        assert said in done.stderr
    assert not Path("pipeline.yaml").exists()


def test_a_column_that_is_twice_and_is_not_needed_is_passed_over(logs: Path) -> None:
    csv_lines(logs / "clicks" / "a.csv", [{**row, "other": "x"} for row in CLICKS])
    file = logs / "clicks" / "a.csv"
    file.write_text(file.read_text().replace("other", "rank", 1))
    done = init()
    assert done.exit_code == 0, done.output
    assert "PASSED OVER clicks/a.csv: several of its columns are called 'rank'" in done.output


def test_what_matches_and_leads_to_nothing_or_is_no_file_is_named_with_the_reason(logs: Path) -> None:
    (logs / "clicks" / "b.csv").symlink_to("/not/mounted/b.csv")
    os.mkfifo(logs / "clicks" / "c.csv")
    done = init()
    assert done.exit_code == 0, done.output
    assert "PASSED OVER clicks/b.csv: cannot be read: No such file or directory; it is a link" in done.output
    assert "PASSED OVER clicks/c.csv: it is no plain file" in done.output


def test_links_that_leave_the_logs_folder_are_allowed_by_the_proposed_file(
    logs: Path, tmp_path: Path
) -> None:
    """As those of /var/log/containers do."""
    elsewhere = logs.parent / "elsewhere.csv"
    (logs / "clicks" / "a.csv").rename(elsewhere)
    (logs / "clicks" / "a.csv").symlink_to(elsewhere)
    done = init()
    assert done.exit_code == 0, done.output
    pipeline = load_pipeline("pipeline.yaml")
    assert pipeline.tailing.links_lead_out
    assert "PASSED OVER" not in done.output


def test_a_link_to_a_pipe_elsewhere_is_no_file(logs: Path) -> None:
    os.mkfifo(logs.parent / "pipe")
    (logs / "clicks" / "a.csv").unlink()
    (logs / "clicks" / "a.csv").symlink_to(logs.parent / "pipe")
    done = init()
    assert done.exit_code == 2, done.output
    assert "no file matches" in done.output


def test_an_unknown_column_is_told_with_those_that_there_are(logs: Path) -> None:
    done = init("--foreign-key", "search")
    assert done.exit_code == 2
    assert "'search'" in done.stderr
    assert "click_id, query_id, ts, rank" in done.stderr


def test_times_of_two_units_are_told_with_how_many_there_are_of_each(logs: Path) -> None:
    rows = [{**row, "ts": row["ts"] // (1_000 if i % 2 else 1)} for i, row in enumerate(CLICKS)]
    csv_lines(logs / "clicks" / "a.csv", rows)
    done = init("--foreign-time", "ts")
    assert done.exit_code == 1
    assert "50 of 100 values in ms, 50 of 100 values in s" in done.stderr


def test_a_key_that_was_named_and_never_matches_ends_with_3_and_keys_that_were_seen(logs: Path) -> None:
    keys_that_never_match(logs)
    done = init("--primary-id", "query_id", "--foreign-key", "query_id")
    assert done.exit_code == 3
    assert "'xc0'" in done.stderr
    assert Path("pipeline.yaml").exists()
