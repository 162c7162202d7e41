"""Every command that takes --dry-run: one shape, nothing changed on disk, no process left behind."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from photon.cli.commands import COMMANDS
from photon.cli.main import main
from photon.cli.output import NOTHING_CHANGED
from photon.dispatcher.shift.run import run_shift
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, init_registry
from photon.registry.stores.sqlite.lock import LOCK, NEXT
from tests.support.local_servers import local_server

pytestmark = pytest.mark.server

PIPELINE = """
name: {name}
datacenters: {{east: {{logs: logs/east}}, west: {{logs: logs/west}}}}
primary: {{files: "queries/*.jsonl", format: jsonl, id: query, time: at, time_unit: us}}
foreign: {{files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at, time_unit: us}}
registry: {{endpoints: {endpoints}, keep_days: 30}}
unmatched: {{}}
"""
DAY, AT_US = "2026-01-05", 1_767_607_200_000_000
MENDS = "def comma(line, reason):\n    return line.replace(b'7 \"at\"', b'7, \"at\"')\n"
# The words behind each command; {file}: the pipeline file.
ON_LOCAL_REGISTRY: dict[str, tuple[tuple[str, ...], ...]] = {
    "acknowledge": (("{file}", "east"),),
    "backfill": (
        ("{file}", "-d", "east", "--day", DAY),
        ("{file}", "-d", "east", "--day", DAY, "--rebuild"),
    ),
    "compact": (("{file}",),),
    "dead-letters": (("{file}", "--mend", "puts_commas:comma"),),
    "init": (("{logs}/queries", "{logs}/clicks", "-o", "{logs}/new.yaml"),),
    "recover": (("{file}",), ("{file}", "--dead-letters")),
    "registry gc": (("{file}",),),
    "registry refill": (("{file}",),),
    "registry reshard": (("{file}", "3"),),
    "retire": (("{file}", "west"),),
    "unmatched": (("{file}",), ("{file}", "--anew")),
}
ON_ENDPOINTS = {"registry repair": (("{file}", "--endpoint", "{url}"),)}
# Files by which processes take turns at a local registry, and at a backfill. They say nothing of rows.
BOOKKEEPING = {LOCK, NEXT, "lock"}


def world_in(folder: Path, endpoints: str = "local") -> Path:
    """Two datacenters that have joined, each with a dead letter; its pipeline file."""
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.format(name=f"p{abs(hash(folder))}", endpoints=endpoints))
    (folder / "puts_commas.py").write_text(MENDS)
    for name in ("east", "west"):
        logs = folder / "logs" / name
        queries = [json.dumps({"query": f"q{n}", "at": AT_US + n}) for n in range(9)]
        clicks = [json.dumps({"click": f"c{n}", "query": f"q{n}", "at": AT_US + n}) for n in range(9)]
        bad = f'{{"click": "bad", "query": "q1", "position": 7 "at": {AT_US}}}'
        for side, lines in (("queries", queries), ("clicks", [*clicks, bad])):
            (logs / side).mkdir(parents=True)
            (logs / side / "a.jsonl").write_text("\n".join([*lines, ""]))
    pipeline = load_pipeline(file)
    init_registry(pipeline, SystemClock())
    for name in ("east", "west"):
        run_shift(pipeline, name, "complete")
    close_registries()
    return file


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world_in(tmp_path_factory.mktemp("world"))


def contents(folder: Path) -> dict[str, object]:
    """All below a folder but bytecode that Python keeps; of a database its rows, which readers may move."""
    found: dict[str, object] = {}
    for path in sorted(each for each in folder.rglob("*") if "__pycache__" not in each.parts):
        name = str(path.relative_to(folder))
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as database:
                found[name] = list(database.iterdump())
        elif path.is_dir():
            if {each.name for each in path.iterdir()} != {"lock"}:
                found[name] = "folder"
        elif path.name not in BOOKKEEPING and not path.name.endswith(("-wal", "-shm")):
            found[name] = path.read_bytes()
    return found


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that name the folder."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if process.name.isdecimal() and str(folder) in line:
                found.append(line)
    return found


def dry_run(command: str, words: tuple[str, ...], file: Path, *more: str, url: str = "") -> Result:
    places = {"file": str(file), "logs": str(file.parent / "logs" / "east"), "url": url}
    named = [word.format(**places) for word in words]
    return CliRunner().invoke(main, [*command.split(), *named, "--dry-run", *more])


def assert_in_shape(command: str, words: tuple[str, ...], file: Path, url: str = "") -> None:
    before, others = contents(file.parent), processes_of(file.parent)
    said = dry_run(command, words, file, url=url)
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith(f"{NOTHING_CHANGED}\n")
    assert len(said.stdout.splitlines()) > 1, "it says nothing of what would be done"
    told = json.loads(dry_run(command, words, file, "--json", url=url).stdout)
    assert told["dry_run"] is True
    assert processes_of(file.parent) == others
    assert contents(file.parent) == before


def commands_with_dry_runs(group: click.Group) -> Iterator[str]:
    context = click.Context(group, **group.context_settings)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (f"{name} {each}" for each in commands_with_dry_runs(command))
        elif command is not None and any("--dry-run" in one.opts for one in command.params):
            yield name


def test_no_command_with_a_dry_run_is_left_out_here() -> None:
    assert "registry" in COMMANDS
    assert sorted(commands_with_dry_runs(main)) == sorted([*ON_LOCAL_REGISTRY, *ON_ENDPOINTS])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(
            name,
            words,
            id=" ".join([name, *(word for word in words if word.startswith("--"))]),
            # Spark takes half a minute of a core, and tests/simulation/test_rebuild.py has dry runs too.
            marks=[pytest.mark.spark, pytest.mark.long] if "--rebuild" in words else [],
        )
        for name, cases in ON_LOCAL_REGISTRY.items()
        for words in cases
    ],
)
def test_a_dry_run_says_so_first_and_leaves_all_as_it_was(
    joined: Path, command: str, words: tuple[str, ...]
) -> None:
    assert_in_shape(command, words, joined)


def test_a_dry_run_of_a_repair_is_in_the_same_shape(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    with (
        local_server(tmp_path / "a") as one,
        local_server(tmp_path / "b") as two,
        local_server(tmp_path / "c") as three,
    ):
        urls = [one, two, three]
        file = world_in(tmp_path / "world", json.dumps([{"url": url} for url in urls]))
        ((words,),) = ON_ENDPOINTS.values()
        assert_in_shape("registry repair", words, file, two)
        close_registries()


@pytest.mark.parametrize("command", ["registry gc", "registry refill", "registry reshard", "retire"])
def test_a_dry_run_makes_no_registry_where_there_is_none(tmp_path: Path, command: str) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(name="new", endpoints="local"))
    done = dry_run(command, ON_LOCAL_REGISTRY[command][0], file)
    assert done.exit_code == 3, done.output
    assert "There is no registry for the pipeline new" in done.stderr
    assert list(tmp_path.iterdir()) == [file]


def test_a_compaction_before_the_first_join_says_that_there_is_nothing_to_do(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(name="new", endpoints="local"))
    for words in ([], ["--dry-run"]):
        said = CliRunner().invoke(main, ["compact", str(file), *words]).stdout
        for name in ("east", "west"):
            assert f"{name}: there is no table yet: it has not joined\n" in said
