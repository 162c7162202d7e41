"""Pages whose commands are run as they stand there, in their order.

README.md, tutorial.md, sql.md, own-logs.md, formats-and-adapters.md, runbook.md.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from examples.make_logs import TRAFFIC, make_logs
from photon.pipeline.file import load_pipeline
from photon.storage.delta import open_table
from tests.documents import ROOT, Block, blocks
from tests.e2e.photon_process import joined_rows, photon
from tests.support.followed_pages import follow, shell_of, without_spark

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_commands_of_the_readme_lead_to_a_joined_table(tmp_path: Path) -> None:
    said = follow(shell_of("README.md"), tmp_path)
    ids = joined_rows(tmp_path / "first" / "pipeline.yaml")["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == TRAFFIC.expected_outcomes().joined_total
    assert f"{len(ids)} rows" in said


def test_the_tutorial_reads_the_rows_of_its_own_logs(tmp_path: Path) -> None:
    """The first commands of the page, joined without Spark."""
    page = shell_of("docs/tutorial.md")
    first = [block for block in page if block.section in ("Logs", "A pipeline file")]
    join = Block("", "bash", "photon join tour/pipeline.yaml --complete --engine local\n")
    read = [block for block in page if block.section == "Read the rows"]
    said = follow([*first, join, *read], tmp_path)
    assert re.search(rf"\[{TRAFFIC.expected_outcomes().joined_total} rows x 4 columns\]", said)
    assert "complete up to 20" in said


def test_the_page_on_sql_leads_from_logs_to_rates_by_country(tmp_path: Path) -> None:
    """The page's Python runs behind its commands."""
    commands = without_spark(shell_of("docs/sql.md"))
    (python,) = (block for block in blocks("docs/sql.md") if block.language == "python")
    (tmp_path / "read.py").write_text(python.text)
    said = follow([*commands, Block("", "bash", "python read.py\n")], tmp_path)
    rates = re.findall(r"^│ (\w\w) +│ +1000 │ +(\d+) │ +([\d.]+) │", said, re.MULTILINE)
    assert rates == [("de", "100", "0.1"), ("jp", "200", "0.2"), ("us", "300", "0.3")]
    assert re.search(r"2026-01-06 +│ +1 │", said) is not None
    assert pq.read_table(tmp_path / "ads" / "rows.parquet").num_rows == 3600


@pytest.mark.long
def test_the_commands_of_the_tutorial_lose_a_row_and_get_it_back(tmp_path: Path) -> None:
    said = follow(shell_of("docs/tutorial.md"), tmp_path)
    assert "status 1" in said
    ids = joined_rows(tmp_path / "tour" / "pipeline.yaml")["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == TRAFFIC.expected_outcomes().joined_total + 1


@pytest.mark.long
def test_the_page_on_own_logs_describes_joins_and_reads_them(tmp_path: Path) -> None:
    make_logs(tmp_path / "made")
    (tmp_path / "made" / "logs" / "east").rename(tmp_path / "logs")
    code = [b for b in blocks("docs/own-logs.md") if b.language == "python" and b.section != "Engines on S3"]
    start = "from photon.jobs.session import build_session, stop_session\nspark = build_session('own logs')\n"
    end = "print('rows:', rows.count_rows(), union.count(), rows.complete_up_to)\nstop_session(spark)\n"
    (tmp_path / "read.py").write_text("\n".join([start, *(block.text for block in code), end]))
    joined_first, anew = shell_of("docs/own-logs.md")[:-1], shell_of("docs/own-logs.md")[-1:]
    said = follow([*joined_first, Block("", "bash", "python read.py\n"), *anew], tmp_path)
    assert re.search(r"^rows: ([1-9]\d*) \1 20", said, re.MULTILINE) is not None
    assert len(joined_rows(tmp_path / "pipeline.yaml")) == TRAFFIC.expected_outcomes().joined_total


@pytest.mark.long
def test_the_commands_of_the_examples_join_what_the_page_says(tmp_path: Path) -> None:
    said = follow(shell_of("docs/formats-and-adapters.md"), tmp_path)
    assert re.findall(r"^ +joined +(\d+)$", said, flags=re.MULTILINE) == ["40", "24", "27"]


@pytest.mark.long
def test_the_commands_of_the_runbook_repair_a_row_that_is_gone(tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    make_logs(tmp_path)
    shutil.copy(ROOT / "examples" / "search_clicks" / "pipeline.yaml", pipeline)
    photon("join", pipeline, "--complete", "--engine", "local")
    commands = shell_of("docs/runbook.md")
    titles = [block.section for block in commands]
    repair = titles.index("nothing_missing")

    follow(commands[:repair], tmp_path)
    before = joined_rows(pipeline)["_event_id"].to_pylist()
    for place in load_pipeline(pipeline).datacenters.values():
        open_table(place.lake / "joined_events").delete(f"_event_id = '{before[0]}'")
    assert len(joined_rows(pipeline)) == len(before) - 1
    follow(commands[repair : repair + 1], tmp_path)
    photon("join", pipeline, "--complete", "--engine", "local")  # the next start takes up what was ordered
    assert sorted(joined_rows(pipeline)["_event_id"].to_pylist()) == sorted(before)
    follow(commands[repair + 1 :], tmp_path)
    assert sorted(joined_rows(pipeline)["_event_id"].to_pylist()) == sorted(before)
