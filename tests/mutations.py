"""Find the tests that catch a random mistake in the product, for the table in docs/testing.md.

`python -m tests.mutations COPY --count 60` takes a checkout that may be spoilt, such as one that
`git worktree add --detach COPY` makes. It writes many mistakes into the copy's product at once, each asleep
until `PHOTON_MISTAKE` names it. The fast tests run once, some files at a time, and note which tests pass
each place, and how long they take. Then some mistakes are woken, each for the tests that pass it, until
enough of these have failed. A test that is the only one to fail catches something of its own. `COPY/mistakes`
keeps all that is found: the same command goes on where an earlier one ended. It takes the fast tests' time,
and then at most a minute or so for each mistake on one core.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import click

FAST = "not (spark or server or slow or long or browser or services)"
FILES_AT_ONCE = 25  # of tests, noted by one run: what is noted so far is kept
PLACES = 1500  # Tests pass them without a mistake, which tells well enough where each test goes.
# The tests of one mistake may take so long, by the noted times: many pass thousands of tests.
SECONDS_OF_TESTS = 25
MOST_CASES = 3  # one test runs so often at most, each time with other parameters
MOST_TESTS = 120  # Collecting more takes longer than running them.
TEST_SECONDS = 60  # A mistake may make a test wait for ever; the machine may be busy.
MISTAKE_SECONDS = 300  # A test that doesn't even heed its own timeout ends here.
AT_ONCE = 2
NOTES = "mistakes"  # a folder in the copy
SCRATCH = "/dev/shm/mistakes"
AWAKE = "PHOTON_MISTAKE"
REPORTS = "PHOTON_MISTAKE_REPORTS"
# The module in the copy that all mistakes ask whether they are awake. It is a plugin of pytest too.
PROBE = """import collections, json, os
append, flags = os.write, os.O_CREAT | os.O_APPEND | os.O_WRONLY
awake = int(os.environ.get("PHOTON_MISTAKE", -1))
notes = os.open({notes!r}, flags)
test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]  # of a process that a test started
noted = set()
def woken(number):
    if awake >= 0:
        return number == awake
    if number not in noted:
        noted.add(number)
        append(notes, f"{{number}} {{test}}\\n".encode())
    return False
def pytest_runtest_logstart(nodeid):
    global test
    test = nodeid
    noted.clear()
def pytest_collection_modifyitems(items):
    if awake < 0:
        cases = collections.Counter()
        def is_one_of_few(item):
            name = item.nodeid.partition("[")[0]
            cases[name] += 1
            return cases[name] <= {most_cases}
        items[:] = filter(is_one_of_few, items)
def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["PHOTON_MISTAKE_REPORTS"], "a") as reports:
            reports.write(json.dumps([report.nodeid, report.outcome, report.duration]) + "\\n")
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
    """An expression of a file, and the wrong one in its place. Places are a line from 1 and a byte from 0."""

    file: str
    begin: tuple[int, int]
    end: tuple[int, int]
    right: str
    wrong: str


@dataclass(frozen=True)
class Noted:
    """The tests that pass each place; for each test its seconds, and how many places it passes."""

    passing: dict[int, set[str]]
    seconds: dict[str, float]
    places: Counter[str]
    fail_anyhow: int


@dataclass(frozen=True)
class Found:
    """A mistake: how many tests pass its place, how many of these ran, and which of them caught it."""

    number: int
    passing: int
    ran: int
    caught: list[str]


def mistakes_of(file: str, source: str) -> Iterator[Mistake]:
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
            assert changed.end_lineno is not None
            assert changed.end_col_offset is not None
            begin, end = (changed.lineno, changed.col_offset), (changed.end_lineno, changed.end_col_offset)
            yield Mistake(file, begin, end, _text(changed, source), wrong)


def _not_to_be_changed(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations, defaults, decorators, patterns; and formatted strings, whose places Python 3.11 hides."""
    parts: list[ast.AST] = []
    if isinstance(node, ast.JoinedStr | ast.pattern):
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
    assert node.end_lineno is not None
    lines = _lines(source)[node.lineno - 1 : node.end_lineno]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][node.col_offset :]
    return b"".join(lines).decode()


@cache
def _lines(source: str) -> list[bytes]:
    return source.encode().splitlines(keepends=True)


def chosen(copy: Path, chance: random.Random) -> list[Mistake]:
    """Mistakes by chance, none inside another."""
    files = [path.relative_to(copy) for path in sorted((copy / "photon").rglob("*.py"))]
    found = [each for file in files for each in mistakes_of(str(file), (copy / file).read_text())]
    apart: list[Mistake] = []
    of_file: dict[str, list[Mistake]] = {}
    for each in chance.sample(found, len(found)):
        others = of_file.setdefault(each.file, [])
        if all(each.end <= other.begin or other.end <= each.begin for other in others):
            others.append(each)
            apart.append(each)
        if len(apart) == PLACES:
            break
    return apart


def write_asleep(copy: Path, mistakes: list[Mistake]) -> None:
    """Put the mistakes into the copy's files, from the end of each to its beginning."""
    numbered = sorted(enumerate(mistakes), key=lambda each: each[1].begin, reverse=True)
    for number, mistake in numbered:
        file = copy / mistake.file
        lines = file.read_bytes().splitlines(keepends=True)
        first, last = mistake.begin[0] - 1, mistake.end[0] - 1
        before, after = lines[first][: mistake.begin[1]], lines[last][mistake.end[1] :]
        asleep = f'(({mistake.wrong}) if __import__("_mistakes").woken({number}) else ({mistake.right}))'
        lines[first : last + 1] = [before + asleep.encode() + after]
        file.write_bytes(b"".join(lines))
    for name in {mistake.file for mistake in mistakes}:
        ast.parse((copy / name).read_text())


def planted(copy: Path, seed: int) -> list[Mistake]:
    """The mistakes that the copy has, or is given now."""
    kept = copy / NOTES / "planted.json"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        mistakes = chosen(copy, random.Random(seed))
        write_asleep(copy, mistakes)
        (copy / "_mistakes.py").write_text(
            PROBE.format(notes=str(copy / NOTES / "passed.txt"), most_cases=MOST_CASES)
        )
        kept.write_text(json.dumps([asdict(each) for each in mistakes]))
    return [Mistake(**each) for each in json.loads(kept.read_text())]


def noted(copy: Path, marked: str) -> Noted:
    """Note what these tests pass while all mistakes are asleep. They run once for it."""
    files = sorted(str(file.relative_to(copy)) for file in (copy / "tests").rglob("test_*.py"))
    outcomes: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for first in range(0, len(files), FILES_AT_ONCE):
        reports = copy / NOTES / f"noted-{first}.json"
        if not reports.exists():
            pytest(copy, "noting", ["-n", str(AT_ONCE), "-m", marked, *files[first:][:FILES_AT_ONCE]], None)
            (copy / NOTES / "noting.json").rename(reports)
        of_files = _reported(reports)
        outcomes |= of_files[0]
        seconds |= of_files[1]
    passing: dict[int, set[str]] = {}
    for line in (copy / NOTES / "passed.txt").read_text().splitlines():
        number, _, test = line.partition(" ")
        if outcomes.get(test) == "passed":  # A session's fixture passes places too, but is no test.
            passing.setdefault(int(number), set()).add(test)
    fail_anyhow = sum(outcome == "failed" for outcome in outcomes.values())
    return Noted(passing, seconds, Counter(test for tests in passing.values() for test in tests), fail_anyhow)


def wake(copy: Path, noted: Noted, number: int, enough: int) -> Found:
    """Run the tests that pass a mistake's place, most particular ones first, until enough of them fail."""
    passing = noted.passing.get(number, set())
    seconds_left = float(SECONDS_OF_TESTS)
    tests: list[str] = []
    for test in sorted(passing, key=lambda test: (noted.places[test], test)):
        if noted.seconds[test] <= seconds_left and len(tests) < MOST_TESTS:
            tests.append(test)
            seconds_left -= noted.seconds[test]
    if not tests:
        return Found(number, len(passing), 0, [])
    outcomes = pytest(copy, f"awake-{number}", [f"--maxfail={enough}", *tests], number)
    caught = {test for test, outcome in outcomes.items() if outcome == "failed"}
    if caught:  # A busy machine makes a test fail too.
        asleep = pytest(copy, f"asleep-{number}", sorted(caught & passing), PLACES)
        caught -= {test for test, outcome in asleep.items() if outcome == "failed"}
    return Found(number, len(passing), len(outcomes), sorted(caught))


def pytest(copy: Path, name: str, arguments: list[str], awake: int | None) -> dict[str, str]:
    """Run tests, and return how each ended. A run that had to be killed adds a failed test of its own."""
    reports, names = copy / NOTES / f"{name}.json", copy / NOTES / f"{name}.txt"
    reports.write_text("")
    names.write_text("\n".join(arguments))
    Path(SCRATCH).mkdir(exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(copy), REPORTS: str(reports)}
    if awake is not None:
        environment[AWAKE] = str(awake)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "_mistakes"]
    command += [f"--basetemp={SCRATCH}/{os.getpid()}-{name}", f"@{names}"]
    command += [f"--timeout={TEST_SECONDS}"] if awake is not None else []
    with (copy / NOTES / f"{name}.out").open("w") as out:
        running = subprocess.Popen(
            command, cwd=copy, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    try:
        running.wait(None if awake is None else MISTAKE_SECONDS)
        ended_itself = {}
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        ended_itself = {"(it hung)": "failed"}
    finally:
        shutil.rmtree(f"{SCRATCH}/{os.getpid()}-{name}", ignore_errors=True)
    return _reported(reports)[0] | ended_itself


def _reported(reports: Path) -> tuple[dict[str, str], dict[str, float]]:
    """The outcome and the seconds of each test, of its set-up, call and teardown together."""
    outcomes: dict[str, str] = {}
    seconds: Counter[str] = Counter()
    for line in reports.read_text().splitlines():
        test, outcome, duration = json.loads(line)
        outcomes[test] = outcome if outcomes.get(test, "passed") == "passed" else outcomes[test]
        seconds[test] += duration
    return outcomes, dict(seconds)


@click.command()
@click.argument("copy", type=click.Path(path_type=Path, exists=True))
@click.option("--count", default=60, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--below", default="photon", show_default=True, help="The folder whose mistakes are woken.")
@click.option("--marked", default=FAST, show_default=True, help="The tests that may catch one.")
@click.option("--enough", default=2, show_default=True, help="After so many that fail no test is alone.")
def main(copy: Path, count: int, seed: int, below: str, marked: str, enough: int) -> None:
    """Print a row for each mistake: its place, how many tests pass it, how many ran, and which caught it."""
    copy = copy.absolute()
    mistakes, notes = planted(copy, seed), noted(copy, marked)
    print(f"seed {seed}; {len(notes.seconds)} tests, {notes.fail_anyhow} fail in a changed source anyhow")
    results = copy / NOTES / f"results-{enough}.json"
    lines = results.read_text().splitlines() if results.exists() else []
    known = {one.number: one for one in (Found(**json.loads(line)) for line in lines)}
    wanted = [number for number, one in enumerate(mistakes) if one.file.startswith(below)][:count]
    with ThreadPoolExecutor(AT_ONCE) as pool, results.open("a") as kept:
        waking = [pool.submit(wake, copy, notes, number, enough) for number in wanted if number not in known]
        for ended in as_completed(waking):
            one = known[ended.result().number] = ended.result()
            kept.write(json.dumps(asdict(one)) + "\n")
            kept.flush()
    found = [known[number] for number in wanted]
    for one in found:
        print(row_of(mistakes[one.number], one))
    caught_by = Counter(min(len(one.caught), 2) for one in found if one.passing)
    print(f"{sum(not one.passing for one in found)} are passed by no test,", end=" ")
    print(f"{caught_by[0]} caught by none, {caught_by[1]} by one alone, {caught_by[2]} by more")
    alone = {one.caught[0] for one in found if len(one.caught) == 1}
    print(f"{len(alone)} of {len(notes.seconds)} tests are the only one to catch a mistake")


def row_of(mistake: Mistake, found: Found) -> str:
    """A mistake and what became of it, as a row of a table."""
    right, wrong = " ".join(mistake.right.split()), " ".join(mistake.wrong.split())
    numbers = f"{found.passing} | {found.ran} | {', '.join(found.caught) or 'none'}"
    return f"{found.number} | {mistake.file}:{mistake.begin[0]} | {right} -> {wrong} | {numbers}"


if __name__ == "__main__":
    main()
