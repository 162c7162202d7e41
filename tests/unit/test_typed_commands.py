"""Every command in a message can be typed as it is: it names the pipeline file, and has no placeholder."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from photon.cli.commands import COMMANDS, command_named
from photon.cli.main import main
from photon.cli.offered import FINAL, offered_in
from photon.cli.registry import registry
from photon.pipeline.file import load_pipeline
from tests.unit.test_documented_commands import unknown_to

ROOT = Path(__file__).parents[2]
ROOMS = ("photon", "assets", "orchestration", "resources", "jobs")
# Commands that are told to people who mend or run a pipeline.
# The first ones take no pipeline file, and messages speak of the last ones without typing them.
NAMES = COMMANDS.keys() - {"setup", "init", "completion", "registry", "sql", "follow", "ui"}
COMMAND = re.compile(rf"\bphoton (?:{'|'.join(NAMES)}|registry (?:{'|'.join(registry.commands)}))\b")
# These expressions name the pipeline file; their values are quoted for a shell.
NAMES_THE_FILE = re.compile(
    r" (?:\{(?:\w+\.)*typed\}|\{typed_file\}|\{(?:found\.)?pipeline\}|\{shlex\.quote|%s)"
)
PLACEHOLDER = re.compile(
    r"\b(PIPELINE|DATACENTER|DAY|EVENT_ID|ID|NAME|URL|MINUTE|MODULE|FUNCTION|LEDGERS|FILE)\b"
)
WITHOUT_A_PIPELINE = {
    "photon/cli/examples.py",  # `--help` shows them, on pipeline.yaml
    "photon/cli/verify.py",  # in an option's help, and as the maker of a report
    "photon/logs/file_kinds.py",  # on a pipeline file that is to be written first
    "photon/upkeep/recovery.py",  # as the maker of an order
    "jobs/backfill.py",  # as the name of a session on Spark's pages
    "jobs/log_copies.py",
    "jobs/verification.py",
}
TEMPLATES = "photon/verification/report.py"  # `Finding.remedy` and `typed` put in what they lack


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with their lines, without docstrings; `{...}` is a value put in."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(_part, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return f"{{{ast.unparse(part.value)}}}"
    return str(part.value) if isinstance(part, ast.Constant) else ""


@cache
def commands() -> list[tuple[str, int, str, str]]:
    """Each command in a text of the product: file, line, the text, and what follows the command's name."""
    told = []
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if file in WITHOUT_A_PIPELINE:
            continue
        for line, text in texts_of(ast.parse(path.read_text())):
            told += [(file, line, text, text[one.end() :]) for one in COMMAND.finditer(text)]
    return told


def test_every_command_in_a_message_names_the_pipeline_file() -> None:
    seen = commands()
    assert len(seen) > 60, "the search finds them"
    nameless = [
        f"{file}:{line}: {text}"
        for file, line, text, behind in seen
        if not (NAMES_THE_FILE.match(behind) or (file == TEMPLATES and behind.startswith(" PIPELINE")))
    ]
    assert nameless == []


def test_no_message_with_a_command_has_a_placeholder() -> None:
    told = {(file, line, text) for file, line, text, _ in commands() if file != TEMPLATES}
    assert [each for each in sorted(told) if PLACEHOLDER.search(re.sub(r"\{[^}]*\}", "", each[2]))] == []


@pytest.mark.parametrize("folder", ["plain", "with a blank", "d'or", "a;b", "$HOME"])
def test_a_pipeline_file_is_typed_so_that_a_shell_takes_it_for_one_word(tmp_path: Path, folder: str) -> None:

    (tmp_path / folder).mkdir()
    pipeline = load_pipeline(Traffic(1).write_pipeline(tmp_path / folder))
    words = shlex.split(f"photon status {pipeline.typed} --check")
    assert words == ["photon", "status", str(pipeline.file), "--check"]


FILE_VALUE = re.compile(
    r"\{(?:\w+\.)*typed(?:_file)?\}|\{(?:found\.)?pipeline\}|\{shlex\.quote\(str[^}]*\}|PIPELINE\b|%s"
)


def said(text: str, file: str) -> str:
    """A text with values in it: the pipeline file, a day, and a number or name for all others."""
    text = FILE_VALUE.sub(lambda _: shlex.quote(file), text)
    return re.sub(r"\{[^}]*\}", "4", text.replace("DATACENTER", "east"))


@pytest.mark.parametrize("file", ["/data/pipeline.yaml", "/my data/d'or/pipeline.yaml"])
def test_what_the_page_offers_of_a_message_is_each_command_as_the_command_line_takes_it(file: str) -> None:
    for where, line, text, _ in commands():
        told = said(text, file)
        offered = offered_in(told, Path(file), command_named)
        wrong = {command: unknown_to(main, shlex.split(command)[1:]) for command in offered}
        assert set(wrong.values()) <= {None}, f"{where}:{line}: {wrong}"
        final = re.findall(rf"\bphoton (?:{'|'.join(FINAL)}) (?![^;]*--dry-run)", told)
        assert len(offered) + len(set(final)) == len(set(COMMAND.findall(told))), f"{where}:{line}: {offered}"


@pytest.mark.parametrize(
    ("told", "offered"),
    [
        ("photon verify p.yaml --record says whether it is mended", ["photon verify p.yaml --record"]),
        ("photon resume p.yaml west lets it run again", ["photon resume p.yaml west"]),
        ("photon registry reshard p.yaml 8 makes twice as many", ["photon registry reshard p.yaml 8"]),
        ("photon dead-letters p.yaml names them", ["photon dead-letters p.yaml"]),
        ("(photon trace p.yaml 'a b; c'), and", ["photon trace p.yaml 'a b; c'"]),
        ("process 7 is stopped: kill -CONT 7 has it go on, kill -9 7 ends it", ["kill -CONT 7"]),
        ("start it with photon join other.yaml -d east", []),
    ],
)
def test_a_command_ends_where_its_parser_takes_no_more(told: str, offered: list[str]) -> None:
    assert offered_in(told, Path("p.yaml"), command_named) == offered


def test_what_is_done_for_good_is_not_offered_but_its_dry_run_is() -> None:
    told = "if it is lost: photon retire p.yaml west --lake-is-gone; photon retire p.yaml west --dry-run"
    assert offered_in(told, Path("p.yaml"), command_named) == ["photon retire p.yaml west --dry-run"]
