"""`photon follow` as it is typed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.releases.lakes import Lakes, new_lakes
from tests.support.commands import photon


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    """Releases 1 and 2, with two rows more each."""
    return new_lakes(tmp_path / "lakes", tmp_path).go_on("east", "east")


def followed(lakes: Lakes, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "photon.cli.main", "follow", str(lakes.pipeline.file), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def events(lines: str) -> list[tuple[int, str]]:
    rows = [json.loads(line) for line in lines.splitlines()]
    return [(row["_release"], row["_event_id"]) for row in rows]


def test_rows_are_lines_and_the_next_run_goes_on_behind_them(here: Lakes, tmp_path: Path) -> None:
    cursor = str(tmp_path / "cursor.json")
    first = followed(here, "--cursor", cursor, "--once")
    assert (first.returncode, first.stderr) == (0, "")
    assert events(first.stdout) == [(1, "e0"), (1, "e1"), (2, "e2"), (2, "e3")]
    here.append("west")
    here.release()
    second = followed(here, "--cursor", cursor, "--once")
    assert events(second.stdout) == [(3, "e4"), (3, "e5")]
    assert "going on behind release 2" in second.stderr


def test_behind_a_release_and_into_a_folder(here: Lakes, tmp_path: Path) -> None:
    assert events(followed(here, "--from", "1", "--once").stdout) == [(2, "e2"), (2, "e3")]
    assert followed(here, "--from", "now", "--once").stdout == ""
    assert "no release number 7" in followed(here, "--from", "7", "--once").stderr
    assert followed(here, "--to", str(tmp_path / "fed"), "--once").returncode == 0
    assert [file.name for file in sorted(tmp_path.glob("fed/*.jsonl"))] == [f"{n:012d}.jsonl" for n in (1, 2)]


def test_a_rebuild_ends_it_with_status_3_unless_changes_are_wanted(here: Lakes, tmp_path: Path) -> None:
    cursor = str(tmp_path / "cursor.json")
    followed(here, "--cursor", cursor, "--once")
    here.rebuild("east")
    here.release()
    stopped = followed(here, "--cursor", cursor, "--once")
    assert (stopped.returncode, stopped.stdout) == (3, "")
    assert "--changes delivers such rows too, --resync all rows of the newest release anew" in stopped.stderr
    changed = followed(here, "--cursor", cursor, "--once", "--changes")
    kinds = {json.loads(line)["_change_type"] for line in changed.stdout.splitlines()}
    assert kinds == {"update_preimage", "update_postimage"}
    anew = followed(here, "--cursor", cursor, "--once", "--resync")
    assert {event for _, event in events(anew.stdout)} == {"e0", "e1", "e2", "e3"}


def test_a_reader_that_goes_away_ends_it_with_141(here: Lakes) -> None:
    command = [sys.executable, "-m", "photon.cli.main", "follow", str(here.pipeline.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        here.append("west", 3)
        here.release()
        assert process.wait(60) == 141


@pytest.mark.parametrize(("told", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_goes_on_until_it_is_told_to_end_and_says_where_it_stands(
    here: Lakes, told: signal.Signals, status: int
) -> None:
    command = [sys.executable, "-m", "photon.cli.main", "follow", str(here.pipeline.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        here.append("west", 1)
        here.release()
        assert json.loads(process.stdout.readline())["_event_id"] == "e4"
        os.kill(process.pid, told)
        assert process.wait(60) == status
        assert process.stderr is not None
        said = process.stderr.read().decode()  # the line is there before its step is done
        assert re.fullmatch(r"photon: interrupted; delivered up to release [23]\n", said)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--table", "unjoined", "--to", "folder"], "a folder takes joined rows only"),
        (["--from", "yesterday"], "expected start, now or the number of a release"),
    ],
)
def test_what_can_t_be_followed_is_refused(here: Lakes, words: list[str], says: str) -> None:
    done = photon("follow", here.pipeline.file, *words)
    assert done.exit_code == 2
    assert says in done.stderr


def test_events_that_were_given_up_are_followed_until_one_is_joined(here: Lakes) -> None:
    number = here.made[-1].release.number
    here.give_up("east", [f"e{here.events}", "lone"])
    here.append("east", 0)
    here.release()
    here.append("west", 1)
    here.release()
    words = ("--table", "unjoined", "--from", str(number), "--once")
    done = followed(here, *words)
    assert [json.loads(line)["event_id"] for line in done.stdout.splitlines()] == ["e4", "lone"]
    assert done.returncode == 3
    assert f"release {number + 2} takes back 1 row: --changes delivers such rows too" in done.stderr
    lines = followed(here, *words, "--changes").stdout.splitlines()
    assert [json.loads(line)["_change_type"] for line in lines] == ["insert", "insert", "delete"]
