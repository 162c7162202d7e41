"""Which tests catch a random mistake in the product: the table behind docs/testing.md.

`python -m tests.mutations COPY --count 60` takes a copy of the checkout that may be spoilt. It writes all
mistakes into the copy's product at once, each asleep until `PHOTON_MISTAKE` names it. One run of the fast
tests notes which tests pass each place; then each mistake is woken for those alone. A test that is the only
one to fail catches something of its own. Wall clock: some minutes for each mistake on one core.
"""

from __future__ import annotations

import ast
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

FAST = "not (spark or server or slow or long or browser or services)"
# A place that thousands of tests pass is judged by a sample, so that no mistake takes an hour.
MOST_TESTS_PER_MISTAKE = 400
TEST_SECONDS = 60  # a mistake may make a test wait for ever
AWAKE = "PHOTON_MISTAKE"
PROBE = """import os
def woken(number):
    with open(os.path.join({folder!r}, f"{{number}}.passed"), "a") as passed:
        passed.write(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] + "\\n")
    return os.environ.get("PHOTON_MISTAKE") == str(number)
"""
COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


@dataclass(frozen=True)
class Mistake:
    """The expression of these lines and bytes of a file, and the wrong one in its place."""

    file: Path
    node: ast.expr
    right: str
    wrong: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.node.lineno}"


def mistakes_of(file: Path, source: str) -> Iterator[Mistake]:
    """Every mistake that could be made in a file's functions: comparisons, logic, numbers, calls left out."""
    tree = ast.parse(source)
    untouched = {id(part) for node in ast.walk(tree) for part in _not_to_be_changed(node)}
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    for node in {id(part): part for function in functions for part in ast.walk(function)}.values():
        changed: ast.expr
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            changed, wrong = node.value, "None"
        elif isinstance(node, ast.expr) and (text := _wrong(node, source)):
            changed, wrong = node, text
        else:
            continue
        if id(changed) not in untouched:
            yield Mistake(file, changed, _text(changed, source), wrong)


def _not_to_be_changed(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations, defaults and decorators; and formatted strings, whose places Python 3.11 does not tell."""
    parts: list[ast.AST] = []
    if isinstance(node, ast.JoinedStr):
        parts = [node]
    elif isinstance(node, ast.AnnAssign):
        parts = [node.annotation]
    elif isinstance(node, ast.FunctionDef):
        parts = [node.args, *node.decorator_list, *([node.returns] if node.returns else [])]
    for part in parts:
        yield from ast.walk(part)


def _wrong(node: ast.expr, source: str) -> str:
    """The expression with a mistake in it; empty where none is known."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        left, right = _text(node.left, source), _text(node.comparators[0], source)
        return f"({left}) {COMPARED[type(node.ops[0])]} ({right})"
    if isinstance(node, ast.BoolOp):
        other = " or " if isinstance(node.op, ast.And) else " and "
        return other.join(f"({_text(value, source)})" for value in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"bool({_text(node.operand, source)})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        return f"({_text(node.left, source)}) {sign} ({_text(node.right, source)})"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value + 1)
    return ""


def _text(node: ast.expr, source: str) -> str:
    return ast.get_source_segment(source, node) or ""


def write_asleep(copy: Path, mistakes: list[Mistake], notes: Path) -> None:
    """Put the mistakes into the copy's files, from the end of each to its beginning."""
    (copy / "_mistakes.py").write_text(PROBE.format(folder=str(notes)))
    numbered = sorted(
        enumerate(mistakes), key=lambda each: (each[1].node.lineno, each[1].node.col_offset), reverse=True
    )
    for number, mistake in numbered:
        node, file = mistake.node, copy / mistake.file
        lines = file.read_bytes().splitlines(keepends=True)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = node.lineno - 1, node.end_lineno - 1
        before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        asleep = f'(({mistake.wrong}) if __import__("_mistakes").woken({number}) else ({mistake.right}))'
        lines[first : last + 1] = [before + asleep.encode() + after]
        file.write_bytes(b"".join(lines))


def pytest(copy: Path, notes: Path, tests: list[str], awake: int | None) -> set[str]:
    """The tests that failed."""
    names = notes / "tests.txt"
    names.write_text("\n".join(tests))
    environment = os.environ | {"PYTHONPATH": str(copy), AWAKE: "" if awake is None else str(awake)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        FAST,
        f"--timeout={TEST_SECONDS}",
        "-p",
        "no:cacheprovider",
    ]
    command += [f"@{names}"] if tests else ["-n", "2"]
    ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    return set(re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ended.stdout, re.MULTILINE))


@click.command()
@click.argument("copy", type=click.Path(path_type=Path, exists=True))
@click.option("--count", default=60, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(copy: Path, count: int, seed: int) -> None:
    """Print a row for each mistake: its place, how many tests pass it, and how many catch it, by folder."""
    chance = random.Random(seed)
    files = [path.relative_to(copy) for path in sorted((copy / "photon").rglob("*.py"))]
    found = [each for file in files for each in mistakes_of(file, (copy / file).read_text())]
    mistakes = chance.sample(found, count)
    notes = copy / "mistakes"
    notes.mkdir()
    write_asleep(copy, mistakes, notes)
    fail_anyhow = pytest(copy, notes, [], None)
    passing = [_passing(notes / f"{number}.passed") - fail_anyhow for number in range(count)]
    print(f"seed {seed}; {len(fail_anyhow)} tests fail in a changed source anyhow")
    for number, mistake in enumerate(mistakes):
        tests = sorted(passing[number])
        sample = chance.sample(tests, min(len(tests), MOST_TESTS_PER_MISTAKE))
        caught = sorted(pytest(copy, notes, sample, number)) if sample else []
        folders = [test.split("/")[1] for test in caught]
        by_folder = ", ".join(f"{folders.count(name)} {name}" for name in sorted(set(folders)))
        right = " ".join(mistake.right.split())
        print(
            f"{number} | {mistake.place} | {right} -> {mistake.wrong} | {len(tests)} | {by_folder or 'none'}"
        )
        if len(caught) == 1:
            print(f"   alone: {caught[0]}")
        sys.stdout.flush()


def _passing(noted: Path) -> set[str]:
    """The tests that passed a place, from its notes; those of a fixture or a session are nobody's."""
    return set(noted.read_text().splitlines()) - {""} if noted.exists() else set()


if __name__ == "__main__":
    main()
