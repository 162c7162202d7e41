"""Real processes: a datacenter dies, or stands still, with events registered and not joined (A16, E6)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from photon.pipeline.file import load_pipeline
from photon.registry.entry import Epoch
from photon.registry.opening import close_registries, open_reader
from tests.e2e.photon_process import PATIENCE_SECONDS, joined_rows, photon, photon_json
from tests.e2e.process_marks import soon

pytestmark = [pytest.mark.server, pytest.mark.slow]

CLICKS = [f"c{number}" for number in range(40)]
PIPELINE = """
name: deaths
datacenters: {east: {logs: logs}, west: {logs: logs}}
primary: {files: "queries.jsonl", format: jsonl, id: query, time: at}
foreign: {files: "clicks.jsonl", format: jsonl, id: click, key: query, time: at}
home: {takeover_delay: 0s}
recovery: {silent_after: 3s}
"""
# Joins the west, and at a fault point sends itself a signal.
WEST = """
import os, sys
from photon.process import faults
from photon.pipeline.file import load_pipeline
from photon.dispatcher.shift.run import run_shift

faults.arm(sys.argv[2], lambda: os.kill(os.getpid(), int(sys.argv[3])))
run_shift(load_pipeline(sys.argv[1]), "west", "until_idle")
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "queries.jsonl").write_text(json.dumps({"query": "q", "at": 5}) + "\n")
    lines = (json.dumps({"click": click, "query": "q", "at": 6}) + "\n" for click in CLICKS)
    (tmp_path / "logs" / "clicks.jsonl").write_text("".join(lines))
    photon("registry", "init", tmp_path / "pipeline.yaml")
    return tmp_path / "pipeline.yaml"


def west(pipeline: Path, point: str, number: signal.Signals) -> subprocess.Popen[str]:
    """A process of the west that will send itself this signal."""
    command = [sys.executable, "-c", WEST, str(pipeline), point, str(int(number))]
    return subprocess.Popen(command, text=True, start_new_session=True)


def joined_once(pipeline: Path) -> bool:
    """Whether each click has one row."""
    return sorted(joined_rows(pipeline)["_event_id"].to_pylist()) == sorted(CLICKS)


@pytest.mark.parametrize("point", ["task.after_candidates", "claim.after", "commit.before_main"])
def test_what_a_killed_datacenter_registered_is_joined_by_the_other_and_not_again(
    pipeline: Path, point: str
) -> None:
    assert west(pipeline, point, signal.SIGKILL).wait(PATIENCE_SECONDS) == -signal.SIGKILL
    photon("join", pipeline, "-d", "east", "--until-idle", "--engine", "local")
    assert joined_once(pipeline)
    photon("join", pipeline, "-d", "west", "--until-idle", "--engine", "local")
    assert joined_once(pipeline)


def test_a_datacenter_that_stood_still_goes_on_in_a_new_epoch_and_joins_nothing_again(pipeline: Path) -> None:
    process = west(pipeline, "commit.before_main", signal.SIGSTOP)
    try:
        assert soon(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, PATIENCE_SECONDS)
        photon("join", pipeline, "-d", "east", "--until-idle", "--engine", "local")
        assert joined_once(pipeline)
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
    assert joined_once(pipeline)
    assert epochs_that_are_over(pipeline, "west") == [True, False]


def epochs_that_are_over(pipeline: Path, datacenter: str) -> list[bool]:
    """Of each epoch of a datacenter, in order, whether the ledgers call it over."""
    try:
        registry = open_reader(load_pipeline(pipeline))
        registry.read_on()
        numbers = range(1, registry.read_register().epochs[datacenter] + 1)
        return [registry.view.is_over(Epoch(datacenter, number)) for number in numbers]
    finally:
        close_registries()


def test_a_person_puts_a_datacenter_on_hold_and_retires_it(pipeline: Path) -> None:
    assert west(pipeline, "claim.after", signal.SIGKILL).wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert photon_json("hold", pipeline, "east") == {"on_hold": ["east"]}
    refused = photon("join", pipeline, "-d", "east", "--until-idle", "--engine", "local", status=3)
    assert "photon resume" in refused.stderr
    assert photon_json("resume", pipeline, "east") == {"on_hold": []}
    assert "is not gone" in photon("retire", pipeline, "west", "--lake-is-gone", status=3).stderr
    (pipeline.parent / "lake" / "west").rename(pipeline.parent / "gone")
    assert "--lake-is-gone" in photon("retire", pipeline, "west", status=3).stderr
    would = photon_json("retire", pipeline, "west", "--lake-is-gone", "--dry-run")
    assert (would["rows"], would["released"]) == (None, len(CLICKS))
    done = photon_json("retire", pipeline, "west", "--lake-is-gone")
    assert (done["dry_run"], done["released"], done["kept"], done["rows"]) == (False, len(CLICKS), 0, None)
    photon("join", pipeline, "-d", "east", "--until-idle", "--engine", "local")
    (pipeline.parent / "gone").rename(pipeline.parent / "lake" / "west")
    assert joined_once(pipeline)
    refused = photon("join", pipeline, "-d", "west", "--until-idle", "--engine", "local", status=3)
    assert "retired" in refused.stderr
    for verb in ("hold", "resume"):
        assert "is retired: it never runs again" in photon(verb, pipeline, "west", status=3).stderr
