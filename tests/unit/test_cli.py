"""The command line: what is refused before anything starts, and what importing it costs."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from photon.cli.commands import COMMANDS
from photon.cli.examples import EXAMPLES
from photon.cli.join import worst_status
from photon.cli.main import main
from photon.cli.registry import registry
from photon.cli.status import status
from photon.dispatcher.shift import people
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.errors import RegistryUnavailable
from photon.registry.register import Members, Register
from photon.verification.report import DatacenterReport, Finding, VerificationReport
from photon.verification.stored_reports import append

PIPELINE = """
name: searches
datacenters: {east: {logs: logs/east}, west: {logs: logs/west}}
primary: {files: "queries/*.csv", format: csv, id: query, time: at}
foreign: {files: "clicks/*.csv", format: csv, id: click, key: query, time: at}
"""


def photon(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    return path


def test_help_imports_neither_spark_nor_dagster_nor_arrow() -> None:
    script = (
        "import sys\n"
        "from photon.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'pyspark', 'dagster', 'pyarrow', 'deltalake', 'boto3', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_help_fits_a_screen_and_has_room_for_another_group(words: list[str]) -> None:
    lines = photon(*words).output.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert all(re.search(rf"\b{name}\b", "\n".join(lines)) for name in COMMANDS)


def test_the_help_lists_the_commands_of_the_registry() -> None:
    (said,) = (line for line in photon("--help").stdout.splitlines() if line.startswith("registry"))
    listed = set(re.findall(r"[a-z]+", said.partition(" Its ")[2]))
    assert listed == set(registry.commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = photon(command, "--help")
    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output
    assert f"photon {command} " in done.output.partition("Options:")[2] or command == "metrics"


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_each_example_of_the_help_is_a_command_that_there_is(line: str) -> None:
    words = line.partition("|")[0].partition("#")[0].split()
    command: click.Command = main
    context = main.make_context("photon", words[1:])
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)


def test_a_command_shows_its_examples_a_line_each() -> None:
    said = photon("trace", "--help").stdout
    assert "Examples:\n    photon trace pipeline.yaml c42\n" in said


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("retries", "retries: {}"),
        ("retry.unjoinable_after", "retry: {unjoinable_after: 250 parsecs}"),
        ("home", "home: soon"),
    ],
)
def test_a_wrong_pipeline_file_is_one_message_with_the_key_and_nothing_is_started(
    pipeline: Path, key: str, line: str
) -> None:
    pipeline.write_text(PIPELINE + line + "\n")
    done = photon("join", pipeline)
    assert done.exit_code == 2
    assert key in done.output
    assert str(pipeline) in done.output
    assert list(pipeline.parent.iterdir()) == [pipeline]


def test_a_column_that_is_in_no_header_is_named_and_nothing_is_started(pipeline: Path) -> None:
    folder = pipeline.parent / "logs" / "east" / "clicks"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("click,search,at\nc1,q1,5\n")
    done = photon("join", pipeline)
    assert done.exit_code == 2
    assert "query" in done.output
    assert not (pipeline.parent / "state").exists()


def test_json_lines_that_are_called_csv_are_told_once_by_their_format(pipeline: Path) -> None:
    folder = pipeline.parent / "logs" / "east" / "clicks"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text('{"click": "c1", "query": "q1", "at": 5}\n')
    done = photon("join", pipeline)
    assert done.exit_code == 2
    (message,) = done.stderr.splitlines()
    assert "foreign.format: expected the format of" in message
    assert "looks like jsonl" in message


def test_a_pipeline_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = photon("join", tmp_path / "nowhere.yaml")
    assert done.exit_code == 2
    assert "nowhere.yaml" in done.output


def test_an_adapter_that_is_not_there_is_named_and_nothing_is_started(pipeline: Path) -> None:
    pipeline.write_text(PIPELINE + "adapter: nowhere:nothing\n")
    done = photon("join", pipeline)
    assert done.exit_code == 2
    assert "nowhere" in done.output
    assert not (pipeline.parent / "state").exists()


def test_an_unknown_datacenter_is_refused_with_those_that_there_are(pipeline: Path) -> None:
    done = photon("join", pipeline, "-d", "north")
    assert done.exit_code == 2
    assert "east, west" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["availability", "-d", "east"], "--minute"),
        (["availability", "--minute", "2026-01-31T10:42", "--most", "0"], "--most"),
        (["recover", "--reason", "broken"], "--dead-letters"),
        (["recover", "--recorded", "--dead-letters"], "leave one out"),
        (["backfill", "-d", "east", "--day", "2026-01-31", "--rebuild", "--wait"], "--wait"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(pipeline: Path, words: list[str], told: str) -> None:
    command, *options = words
    done = photon(command, pipeline, *options)
    assert done.exit_code == 2
    assert told in done.stderr
    assert not (pipeline.parent / "state").exists()


def test_a_join_ends_in_one_way(pipeline: Path) -> None:
    done = photon("join", pipeline, "--until-idle", "--complete")
    assert done.exit_code == 2
    assert "--complete" in done.output


def test_the_status_of_a_pipeline_that_never_ran_says_how_to_start_it(pipeline: Path) -> None:
    done = photon("status", pipeline, "--json")
    assert done.exit_code == 0
    status = json.loads(done.stdout)
    assert set(status) == {"east", "west", "all datacenters"}
    assert status["all datacenters"]["needs_somebody"] is True
    assert status["all datacenters"]["overall"].startswith("2 of 2 datacenters need somebody")
    assert any("photon join" in problem for problem in status["east"]["problems"])
    assert status["east"]["running_process"] is None


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_damaged_state_is_told_with_its_remedy_and_the_other_datacenters_as_usual(
    pipeline: Path, options: list[str]
) -> None:
    damaged = pipeline.parent / "state" / "west" / "dispatcher.sqlite"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(random.Random(7).randbytes(40_000))
    done = photon("status", pipeline, *options)
    assert done.exit_code == 3
    if options:
        told = json.loads(done.stdout)
        assert told["east"]["running_process"] is None
        west = told["west"]["error"]
    else:
        assert "east has never run: start it with photon join" in done.stdout
        (west,) = (line for line in done.stdout.splitlines() if line.startswith("west"))
    assert f"{damaged} is damaged" in west
    assert "move it away" in west


def test_the_status_tells_who_is_on_hold_and_goes_on_where_the_registry_does_not_answer(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = Register("searches", "", Members(1, ("a",)), on_hold=("east",), given_up=("west",))
    monkeypatch.setattr(people, "register_of", lambda _: register)
    said = photon("status", pipeline).stdout
    assert f"east is ON HOLD; resume it with photon resume {pipeline} east" in said
    assert "west is RETIRED" in said
    assert "NEEDS YOU" not in said
    monkeypatch.undo()
    nowhere = "registry: {deadline: 200ms, endpoints: [{url: 'http://127.0.0.1:9'}]}\n"
    pipeline.write_text(PIPELINE + nowhere)
    done = photon("status", pipeline)
    assert done.exit_code == 0
    assert "who is on hold or retired is NOT KNOWN" in done.stdout
    assert "east has never run" in done.stdout


def test_a_check_of_the_status_ends_with_1_if_somebody_is_needed_and_with_0_if_all_is_well(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = photon("status", pipeline, "--check")
    assert (done.exit_code, done.stdout.split(":")[0]) == (1, "2 of 2 datacenters need somebody")
    assert photon("status", pipeline).exit_code == 0
    register = Register("searches", "", Members(1, ("a",)), on_hold=("east",), given_up=("west",))
    monkeypatch.setattr(people, "register_of", lambda _: register)
    done = photon("status", pipeline, "--check", "--json")
    assert (done.exit_code, json.loads(done.stdout)["east"]["needs_somebody"]) == (0, [])


def test_a_check_of_the_status_fails_where_the_registry_does_not_answer(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_: object) -> None:
        raise RegistryUnavailable("nobody answers")

    monkeypatch.setattr(people, "register_of", silent)
    done = photon("status", pipeline, "--check")
    assert (done.exit_code, done.stdout.split(":")[0]) == (1, "The registry needs somebody")
    assert "who is on hold or retired is NOT KNOWN: nobody answers" in done.stdout


def test_a_check_of_the_status_fails_while_the_newest_verification_says_that_rows_are_missing(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = Register("searches", "", Members(1, ("a",)), on_hold=("east", "west"))
    monkeypatch.setattr(people, "register_of", lambda _: register)
    loaded = load_pipeline(pipeline)

    def verified(at_us: int, *findings: Finding) -> None:
        report = VerificationReport({"east": DatacenterReport(findings=findings)}, rows=0)
        append(loaded, report, at_us, "test", 1.0)

    verified(1_000_000, Finding("missing", 3))
    done = photon("status", pipeline, "--check")
    assert done.exit_code == 1
    first, *others = done.stdout.splitlines()
    assert first.endswith("needs somebody: east is broken by its newest verification (3 missing)")
    (todo,) = (line for line in others if "NEEDS YOU: verified at 1970-01-01" in line)
    assert f"What to do: photon recover {pipeline}" in todo
    assert f"Then photon verify {pipeline} --record" in todo
    verified(SystemClock().now_us())
    done = photon("status", pipeline, "--check")
    assert (done.exit_code, done.stdout.split(":")[0]) == (0, "All is well")


# -- the pipeline file may be left out


@pytest.fixture
def here(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the folder of `pipeline.yaml`."""
    monkeypatch.chdir(pipeline.parent)
    return pipeline.parent


def parsed(*words: str) -> dict[str, object]:
    """What a command is called with, which is not run."""
    command: click.Command = main
    context, rest = click.Context(main, info_name="photon"), list(words)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest.pop(0))
        assert found is not None
        command = found
    return command.make_context(command.name, rest, parent=context).params


@pytest.mark.parametrize(
    ("words", "file", "others"),
    [
        (["status"], "pipeline.yaml", {}),
        (["status", "other.yaml"], "other.yaml", {}),
        (["hold", "east"], "pipeline.yaml", {"datacenter": "east"}),
        (["hold", "other.yaml", "east"], "other.yaml", {"datacenter": "east"}),
        (["hold", "--json", "other.yaml", "east"], "other.yaml", {"datacenter": "east"}),
        (["trace", "c42"], "pipeline.yaml", {"event_id": "c42"}),
        (["trace", "c42.yaml"], "pipeline.yaml", {"event_id": "c42.yaml"}),
        (["trace", "other.yaml", "pipeline.yaml"], "other.yaml", {"event_id": "pipeline.yaml"}),
        (["trace", "--no-logs", "--", "-c42"], "pipeline.yaml", {"event_id": "-c42"}),
        (["backfill", "-d", "east", "--day", "2026-01-31"], "pipeline.yaml", {"datacenter": "east"}),
    ],
)
def test_the_last_words_are_filled_first_and_the_pipeline_file_may_be_left_out(
    here: Path, words: list[str], file: str, others: dict[str, str]
) -> None:
    found = parsed(*words)
    assert found["pipeline_file"] == Path(file)
    assert others.items() <= found.items()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ("pipeline.yaml", None)),
        (["4"], ("pipeline.yaml", 4)),
        (["./4"], ("./4", None)),
        (["other.yaml"], ("other.yaml", None)),
        (["4", "8"], ("4", 8)),
        (["other.yaml", "4"], ("other.yaml", 4)),
    ],
)
def test_a_number_alone_is_that_of_the_ledgers(
    here: Path, words: list[str], expected: tuple[str, int | None]
) -> None:
    file, ledgers = expected
    assert parsed("registry", "reshard", *words)["words"] == (Path(file), ledgers)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["status", "a.yaml", "b.yaml"], "expected one pipeline file, got 2: a.yaml, b.yaml"),
        (["hold", "a.yaml", "east", "west"], "expected one pipeline file, got 2: a.yaml, east"),
        (["hold"], "Missing argument 'DATACENTER'"),
        (["registry", "reshard", "a.yaml", "four"], "'four' is not a valid integer"),
        (["registry", "reshard", "65"], "65 is not in the range"),
    ],
)
def test_words_too_many_or_too_few_are_refused(here: Path, words: list[str], told: str) -> None:
    done = photon(*words)
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr


def test_a_datacenter_that_is_called_like_a_file_of_this_folder_is_the_datacenter(here: Path) -> None:
    (here / "east").write_text("no pipeline")
    assert parsed("hold", "east")["datacenter"] == "east"


def test_a_folder_without_a_pipeline_file_is_told_with_the_way_to_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = photon("trace", "c42")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"photon: there is no pipeline.yaml in {tmp_path}: name the pipeline file")
    assert "photon init PRIMARY FOREIGN" in done.stderr
    assert photon("trace", "--help").exit_code == 0


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["trace", "c 42", "--no-logs"], "photon trace folder/my.yaml 'c 42' --no-logs"),
        (["hold", "east"], "photon hold folder/my.yaml east"),
        (["registry", "reshard", "4"], "photon registry reshard folder/my.yaml 4"),
        (["status"], "photon status folder/my.yaml"),
    ],
)
def test_the_command_that_names_a_pipeline_file_has_all_words_that_were_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"as in {command}, or write one" in photon(*words).stderr


def test_a_trace_before_the_very_first_join_says_so_and_proposes_to_retire_nobody(pipeline: Path) -> None:
    """Broken variant: each table is not there, and the lakes are to be given up as gone."""
    done = photon("trace", pipeline, "c1")
    assert done.exit_code == 0
    assert "has never joined" in done.stdout
    assert "retire" not in done.stdout
    assert "no table joined_events" not in done.stdout


def test_a_trace_of_no_id_is_wrong_usage(pipeline: Path) -> None:
    done = photon("trace", pipeline, "")
    assert done.exit_code == 2
    assert "EVENT_ID is empty" in done.output


def test_a_trace_of_bytes_that_are_no_text_is_wrong_usage(pipeline: Path) -> None:
    done = photon("trace", pipeline, b"\xff-1".decode(errors="surrogateescape"))
    assert done.exit_code == 2
    assert "is no UTF-8" in done.output


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
def test_a_command_whose_output_nobody_reads_ends_quietly(pipeline: Path, words: list[str]) -> None:
    words = [str(pipeline) if word == "PIPELINE" else word for word in words]
    done = with_nobody_to_read("-m", "photon.cli.main", *words)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_command_that_fails_keeps_its_status_where_nobody_reads_its_object() -> None:
    done = with_nobody_to_read("-m", "photon.cli.main", "status", "missing.yaml", "--json")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def with_streams(redirection: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `photon` with its standard streams as a shell redirects them."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "photon.cli.main", *words]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # what is in a buffer may fail at the very end
    return subprocess.run(command, env=buffered, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("words", [["status", "PIPELINE"], ["status", "PIPELINE", "--json"], ["--help"]])
def test_an_output_that_is_full_is_one_sentence_and_no_defect(pipeline: Path, words: list[str]) -> None:
    done = with_streams(">/dev/full", *(pipeline if word == "PIPELINE" else word for word in words))
    assert (done.returncode, done.stderr) == (
        3,
        "photon: cannot write to standard output: No space left on device; what was done before stays done\n",
    )


@pytest.mark.parametrize("words", [["verify", "missing.yaml"], ["status", "missing.yaml"], ["join"]])
def test_a_command_that_fails_keeps_its_status_where_both_outputs_are_full(words: list[str]) -> None:
    assert with_streams(">/dev/full 2>/dev/full", *words, "--json").returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_takes_nothing_and_changes_no_status(pipeline: Path, closed: str) -> None:
    (pipeline.parent / "logs" / "east").mkdir(parents=True, exist_ok=True)
    done = with_streams(closed, "status", pipeline)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) is (">&-" not in closed.replace("2>&-", ""))
    assert with_streams(closed, "acknowledge", pipeline, "east").returncode == 3


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


def test_a_defect_is_one_object_too(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(status, "callback", fails)
    done = photon("status", pipeline, "--json")
    error = json.loads(done.stdout)
    assert done.exit_code == 70 == error["exit_status"]
    assert error["error"] == "a defect of Photon: ZeroDivisionError: by chance"


def test_a_status_that_is_told_in_part_is_one_object(pipeline: Path) -> None:
    damaged = pipeline.parent / "state" / "west" / "dispatcher.sqlite"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(random.Random(7).randbytes(40_000))
    done = photon("status", pipeline, "--json")
    assert (done.exit_code, set(json.loads(done.stdout))) == (3, {"east", "west", "all datacenters"})


# -- quick


# Each takes 5 to 250 ms, and `photon status` is to answer within half a second.
NOT_FOR_A_STATUS = (
    *("pyspark", "dagster", "pandas._libs", "boto3", "botocore.session", "psutil", "rich"),
    *(
        "pyarrow.csv",
        "pyarrow.json",
        "photon.logs.parse",
        "photon.storage.tables",
        "photon.verification.report",
    ),
)


def test_a_status_does_without_the_modules_that_take_long_to_import(pipeline: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "photon.cli.main", "status", str(pipeline)]
    ended = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert ended.stdout.startswith("2 of 2 datacenters need somebody: east has never run")
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "photon.health.status" in imported
    assert not imported.intersection(NOT_FOR_A_STATUS)


@pytest.mark.parametrize(("words", "status"), [(["status", "nowhere.yaml"], 2), (["status"], 2)])
def test_a_command_that_ends_quickly_keeps_its_exit_status(words: list[str], status: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "photon.cli.main", *words], capture_output=True, timeout=60, text=True
    )
    assert ended.returncode == status, ended.stderr


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
    pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "callback", interrupted)
    done = photon("status", pipeline)
    assert (done.exit_code, done.stderr) == (130, "photon: interrupted\n")


@pytest.mark.parametrize(
    ("returncodes", "status"),
    [
        ([0, 0], 0),
        ([0, 3], 3),
        ([130, 130], 130),  # a second SIGINT
        ([-signal.SIGINT, 0], 130),  # so early that the child had no handler yet
        ([-signal.SIGTERM, -signal.SIGINT], 143),
    ],
)
def test_a_join_ends_with_the_worst_status_of_its_children_as_a_shell_counts_them(
    returncodes: list[int], status: int
) -> None:
    assert worst_status(returncodes) == status


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_a_script_that_completes_photon(shell: str) -> None:
    done = photon("completion", shell)
    assert done.exit_code == 0, done.output
    assert f"_PHOTON_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("photon re", {"recover", "registry", "resume", "retire"}),
        ("photon join --comp", {"--complete"}),
    ],
)
def test_commands_and_options_are_completed(words: str, completed: set[str]) -> None:
    asked = {"_PHOTON_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(main, env=asked, prog_name="photon")
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == completed


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["recover", "--recorded"],
        ["hold", "east"],
        ["resume", "east"],
        ["backfill", "-d", "east", "--day", "2026-01-31"],
    ],
)
def test_a_file_that_lacks_a_datacenter_of_the_registry_is_refused(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    register = Register("searches", "", Members(1, ("a",)), epochs={"north": 1})
    monkeypatch.setattr(people, "register_of", lambda _: register)
    done = photon(command[0], pipeline, *command[1:])
    assert done.exit_code == 3
    assert "knows datacenter north" in done.output
    assert f"photon retire {pipeline} north" in done.output
