"""The command line tells of itself: help, examples, completion; and importing it costs little."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from photon.cli.commands import COMMANDS
from photon.cli.examples import EXAMPLES
from photon.cli.main import main
from photon.cli.registry import registry
from tests.support.commands import photon


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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_a_script_that_completes_photon(shell: str) -> None:
    done = photon("completion", shell)
    assert done.exit_code == 0, done.output
    assert f"_PHOTON_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("photon re", {"recover", "registry", "releases", "resume", "retire"}),
        ("photon join --comp", {"--complete"}),
    ],
)
def test_commands_and_options_are_completed(words: str, completed: set[str]) -> None:
    asked = {"_PHOTON_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(main, env=asked, prog_name="photon")
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == completed


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


def test_a_status_does_without_the_modules_that_take_long_to_import(pipeline_file: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "photon.cli.main", "status", str(pipeline_file)]
    ended = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert ended.stdout.startswith("2 of 2 datacenters need somebody: east has never run")
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "photon.health.status" in imported
    assert not imported.intersection(NOT_FOR_A_STATUS)
