"""Progress on a terminal: one line that is drawn again; elsewhere none, and no colour that nobody wants."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from photon.cli.backlog_line import look, telling_how_far
from photon.dispatcher.shift.growth import LogsRead
from photon.pipeline.file import load_pipeline
from tests.support.shares import a_share
from tests.terminals import shown_on_terminal

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HIDES_CURSOR = "\x1b[?25l"  # while a line is drawn again and again
SHOWS = """
import logging, time
from photon.cli.output import log_to_stderr, showing_progress
log_to_stderr()
with showing_progress() as say:
    say("40 % of 1.2 GiB" + " and so on" * 30)
    time.sleep(0.3)  # rich draws ten times a second
    logging.getLogger("photon").warning("waits for the registry")
"""
AS_JSON = """
import sys, click
from photon.cli.ending import Ending
with click.Context(click.Command("verify"), obj=Ending(("verify", "--json"))):
    exec(sys.argv[1])
"""


def test_a_terminal_shows_one_line_however_long_it_is_and_clears_it_for_a_log_line() -> None:
    shown = shown_on_terminal([sys.executable, "-c", SHOWS], COLUMNS="60")
    assert COLOUR.search(shown)
    before, _, after = COLOUR.sub("", shown).partition("\r\x1b[K")
    assert "40 % of 1.2 GiB and so on" in before
    assert "…" in before
    assert HIDES_CURSOR in before
    assert "\n" not in before
    assert re.match(r"\d\d:\d\d:\d\d WARNING waits for the registry\r\n", after)


def test_no_color_means_no_colour() -> None:
    shown = shown_on_terminal([sys.executable, "-c", SHOWS], NO_COLOR="1")
    assert "40 % of 1.2 GiB" in shown
    assert not re.search(r"\x1b\[[0-9;]*[34][0-9][0-9;]*m", shown)


def test_a_dumb_terminal_gets_log_lines() -> None:
    shown = shown_on_terminal([sys.executable, "-c", SHOWS], TERM="dumb")
    assert "\x1b" not in shown
    assert [line.split()[1] for line in shown.splitlines()] == ["INFO", "WARNING"]


def test_a_program_that_reads_json_from_a_pipe_gets_log_lines() -> None:
    shown = shown_on_terminal([sys.executable, "-c", AS_JSON, SHOWS])
    assert re.findall(r"INFO|WARNING", shown) == ["INFO", "WARNING"]
    assert shown.endswith("WARNING waits for the registry\r\n")
    assert HIDES_CURSOR not in shown


def test_a_pipe_gets_log_lines_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOWS], capture_output=True, text=True, timeout=60, check=True
    )
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    assert [line.split()[1] for line in done.stderr.splitlines()] == ["INFO", "WARNING"]


@pytest.fixture
def pipeline_file(tmp_path: Path) -> Path:
    """A pipeline whose datacenter has 100 bytes of logs, and was never joined."""
    for name, size in (("queries", 40), ("clicks", 60)):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / "1.csv").write_bytes(b"x" * size)
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: searches\n"
        "datacenters: {east: {logs: logs}}\n"
        'primary: {files: "queries/*.csv", format: csv, id: query, time: at}\n'
        'foreign: {files: "clicks/*.csv", format: csv, id: click, key: query, time: at}\n'
    )
    return path


def test_a_datacenter_that_was_never_joined_has_read_nothing(pipeline_file: Path) -> None:
    assert look(load_pipeline(pipeline_file), ["east"]) == LogsRead(0, 100, 0)


def test_a_join_tells_how_far_its_logs_are_read(pipeline_file: Path) -> None:
    said: list[str] = []
    has_looked = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            has_looked.set()

    with telling_how_far(load_pipeline(pipeline_file), ["east"], say):
        assert has_looked.wait(60)
    assert said[:2] == ["east: joins", "east: reads logs: 0 % of 100 bytes; 0 joined"]


OF_A_JOIN = """
import sys
from photon.cli import join
join.LINE_EVERY_SECONDS = 0.0  # else one of many lines is told
join.join.main(["--engine", "local", *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    "more", a_share(["", ", west: {logs: logs}"], 1, of=2), ids=["one", "each in its own process"]
)
def test_a_join_that_ends_goes_on_telling_on_a_pipe(pipeline_file: Path, more: str) -> None:
    pipeline_file.write_text(pipeline_file.read_text().replace("{logs: logs}}", f"{{logs: logs}}{more}}}"))
    line = [sys.executable, "-c", OF_A_JOIN, "--until-idle", str(pipeline_file)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert re.search(r"INFO east.*: reads logs: .* of \d+ bytes; \d+ joined\n", done.stderr), done.stderr
