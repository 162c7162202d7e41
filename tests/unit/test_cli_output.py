"""Commands end with their exit status and one object of JSON, at full or closed streams, and at Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from photon.cli.join import worst_status
from photon.cli.status import status
from tests.support.commands import photon

# -- ended from outside


def with_nobody_to_read(*command: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run Python with a standard output whose reader is gone, as of `photon status | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, *command], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    "words",
    [
        ["status", "PIPELINE"],
        ["status", "PIPELINE", "--json"],
        ["--help"],
        ["join", "--help"],
        ["completion", "bash"],
    ],
    ids=" ".join,
)
def test_a_command_whose_output_nobody_reads_ends_quietly(pipeline_file: Path, words: list[str]) -> None:
    words = [str(pipeline_file) if word == "PIPELINE" else word for word in words]
    done = with_nobody_to_read("-m", "photon.cli.main", *words)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_command_that_fails_keeps_its_status_where_nobody_reads_its_object() -> None:
    done = with_nobody_to_read("-m", "photon.cli.main", "status", "missing.yaml", "--json")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def with_streams(redirection: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `photon` with its standard streams as a shell redirects them."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "photon.cli.main", *words]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # with a buffer, writing may fail at the very end
    return subprocess.run(command, env=buffered, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("words", [["status", "PIPELINE"], ["status", "PIPELINE", "--json"], ["--help"]])
def test_an_output_that_is_full_is_one_sentence_and_no_defect(pipeline_file: Path, words: list[str]) -> None:
    done = with_streams(">/dev/full", *(pipeline_file if word == "PIPELINE" else word for word in words))
    assert (done.returncode, done.stderr) == (
        3,
        "photon: cannot write to standard output: No space left on device; what was done before stays done\n",
    )


@pytest.mark.parametrize("words", [["verify", "missing.yaml"], ["status", "missing.yaml"], ["join"]])
def test_a_command_that_fails_keeps_its_status_where_both_outputs_are_full(words: list[str]) -> None:
    assert with_streams(">/dev/full 2>/dev/full", *words, "--json").returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_takes_nothing_and_changes_no_status(pipeline_file: Path, closed: str) -> None:
    (pipeline_file.parent / "logs" / "east").mkdir(parents=True, exist_ok=True)
    done = with_streams(closed, "status", pipeline_file)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) is (">&-" not in closed.replace("2>&-", ""))
    assert with_streams(closed, "acknowledge", pipeline_file, "east").returncode == 3


def test_ctrl_c_ends_photon_quietly_while_it_is_imported_and_is_told_from_then_on() -> None:
    program = """
import atexit, signal, sys
sys.argv = ["/usr/bin/photon", "--help"]
import photon.cli
if "now" in sys.orig_argv:
    signal.raise_signal(signal.SIGINT)
from photon.cli.main import main
atexit.register(lambda: print(signal.getsignal(signal.SIGINT) is signal.default_int_handler))
main()
"""
    now, later = (
        subprocess.run([sys.executable, "-c", program, word], capture_output=True, text=True, check=False)
        for word in ("now", "later")
    )
    assert (now.returncode, now.stderr) == (-signal.SIGINT, "")
    assert (later.returncode, later.stdout.splitlines()[-1]) == (0, "True")


def test_whoever_imports_the_command_keeps_his_own_way_to_be_interrupted() -> None:
    program = "import photon.cli.main, signal; print(signal.getsignal(signal.SIGINT).__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "default_int_handler\n"


def test_a_child_whose_parent_was_killed_with_its_terminal_goes_on_to_its_end(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from photon.cli.output import log_to_stderr, showing_progress\n"
        "os.dup2(1, 2)\n"  # nobody reads standard error either
        "log_to_stderr()\n"
        "with showing_progress(plain=True) as say:\n"
        "    for _ in range(3): say('joins')\n"
        "pathlib.Path(sys.argv[1]).write_text('ended')\n"
    )
    done = with_nobody_to_read("-c", script, tmp_path / "end")
    assert (tmp_path / "end").read_text() == "ended"
    assert done.stderr == b""


@pytest.mark.parametrize(("is_screen", "said"), [(True, ["silence"]), (False, ["hiccup", "silence"])])
def test_a_terminal_shows_no_hiccups_of_the_endpoints_and_a_log_has_them(
    is_screen: bool, said: list[str]
) -> None:
    script = (
        "import logging\n"
        "from photon.cli.output import log_to_stderr\n"
        "log_to_stderr()\n"
        "log = logging.getLogger('photon.registry.stores.asking')\n"
        "log.info('hiccup')\n"
        "log.warning('silence')\n"
    )
    reader, writer = os.openpty() if is_screen else os.pipe()
    try:
        subprocess.run([sys.executable, "-c", script], stderr=writer, timeout=60, check=True)
        lines = os.read(reader, 10_000).decode().split("\n")[:-1]
    finally:
        os.close(reader)
        os.close(writer)
    assert [line.split()[-1] for line in lines] == said


def test_an_interrupted_command_has_neither_the_status_of_a_violation_nor_a_traceback(
    pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "callback", interrupted)
    done = photon("status", pipeline_file)
    assert (done.exit_code, done.stderr) == (130, "photon: interrupted\n")


@pytest.mark.parametrize(
    ("returncodes", "status"),
    [
        ([0, 0], 0),
        ([0, 3], 3),
        ([130, 130], 130),  # a second SIGINT
        ([-signal.SIGINT, 0], 130),  # the child had no handler yet
        ([-signal.SIGTERM, -signal.SIGINT], 143),
    ],
)
def test_a_join_ends_with_the_worst_status_of_its_children_as_a_shell_counts_them(
    returncodes: list[int], status: int
) -> None:
    assert worst_status(returncodes) == status


# -- one object


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["status", "missing.yaml", "--json"], 2, "missing.yaml"),
        (["trace", "p.yaml", "", "--json"], 2, "EVENT_ID is empty"),
        (["join", "--json"], 2, "there is no pipeline.yaml in"),
        (["join", "p.yaml", "--complet", "--json"], 2, "--complet"),
        (["nonsense", "--json"], 2, "No such command 'nonsense'"),
    ],
)
def test_with_json_a_command_that_fails_prints_one_object_with_its_error(
    words: list[str], status: int, told: str
) -> None:
    done = photon(*words)
    error = json.loads(done.stdout)
    assert done.exit_code == status == error["exit_status"]
    assert told in error["error"]
    assert told in done.stderr


def test_a_defect_is_one_object_too(pipeline_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(status, "callback", fails)
    done = photon("status", pipeline_file, "--json")
    error = json.loads(done.stdout)
    assert done.exit_code == 70 == error["exit_status"]
    assert error["error"] == "a defect of Photon: ZeroDivisionError: by chance"
