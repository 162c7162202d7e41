"""First mistakes of a new user: each is told, and mended by what the message names."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from photon.cli.main import main
from photon.pipeline.file import load_pipeline
from photon.registry.opening import begin_anew as begin_anew_of
from photon.registry.opening import close_registries

pytestmark = pytest.mark.server

SETTINGS = {
    "primary": {"files": "queries.csv", "format": "csv", "id": "query", "time": "at", "time_unit": "s"},
    "foreign": {
        "files": "clicks.csv",
        "format": "csv",
        "id": "click",
        "key": "query",
        "time": "at",
        "time_unit": "s",
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Logs with two queries and a click on each, whose times are text."""
    logs = tmp_path / "logs"
    logs.mkdir()
    queries = ["query,other,at", "q1,x1,2026-01-31T10:00:00Z", "q2,x2,2026-01-31T10:00:01Z"]
    clicks = ["click,query,rank,at", "c1,q1,1,2026-01-31T10:00:05Z", "c2,q2,2,2026-01-31T10:00:06Z"]
    (logs / "queries.csv").write_text("\n".join([*queries, ""]))
    (logs / "clicks.csv").write_text("\n".join([*clicks, ""]))
    yield tmp_path
    close_registries()


def written(
    folder: Path, primary: dict[str, str] | None = None, foreign: dict[str, str] | None = None
) -> Path:
    """A pipeline file with these settings in place of the right ones."""
    right = {"time_unit": "iso8601"}
    value = {
        "name": "clicks",
        "datacenters": {"here": {"logs": "logs"}},
        "primary": {**SETTINGS["primary"], **right, **(primary or {})},
        "foreign": {**SETTINGS["foreign"], **right, **(foreign or {})},
    }
    file = folder / "p.yaml"
    file.write_text(json.dumps(value))
    return file


def photon(*words: str | Path) -> Result:
    done = CliRunner().invoke(main, [str(word) for word in words])
    close_registries()
    return done


def joined(file: Path) -> Any:
    done = photon("join", file, "--complete", "--engine", "local", "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["here"]["joined"]


def begin_anew(told: str) -> None:
    """Run the command that a message names."""
    (command,) = set(re.findall("rm -rf [^;]*", told))
    subprocess.run(shlex.split(command), check=True)


def test_a_wrong_format_of_times_is_told_and_mended_by_what_the_messages_name(folder: Path) -> None:
    wrong = {"time_format": "%d/%m/%Y %H:%M:%S"}  # a wrong unit alone does no harm to times as text
    file = written(folder, wrong, wrong)
    done = photon("join", file, "--complete", "--engine", "local")
    assert done.exit_code == 5
    assert "all 2 foreign lines are dead letters" in done.stderr
    assert f"photon dead-letters {file} has the reasons" in done.stderr
    reasons = photon("dead-letters", file)
    assert "2026-01-31T10:00:05Z" in reasons.stdout
    written(folder)
    refused = photon("join", file, "--complete", "--engine", "local")
    assert refused.exit_code == 3
    for place in (f"{folder}/lake/here", f"{folder}/state/here", f"{folder}/state/registry"):
        assert place in refused.stderr  # the remedy for a local registry: not photon registry init
    begin_anew(done.stderr)
    assert joined(file) == 2


def test_two_pipelines_of_one_folder_join_and_one_begins_anew_without_the_other(folder: Path) -> None:
    logs, files = folder / "logs", [folder / "one.yaml", folder / "two.yaml"]
    for file in files:
        made = photon("init", logs / "queries.csv", logs / "clicks.csv", "--name", file.stem, "-o", file)
        assert made.exit_code == 0, made.output
        assert joined(file) == 2
    one, two = map(load_pipeline, files)
    anew = begin_anew_of(one)
    assert str(one.registry_folder) not in anew  # the other's ids are in it
    subprocess.run(["rm", "-rf", *re.findall(rf"{folder}[^ ;]*", anew)], check=True)
    files[0].write_text(files[0].read_text().replace("name: one", "name: again"))  # as the message says
    assert joined(files[0]) == joined(files[1]) == 2
    assert load_pipeline(files[1]) == two


def test_a_key_that_never_matches_is_found_by_the_command_that_the_message_names(folder: Path) -> None:
    file = written(folder, foreign={"key": "rank"})
    done = photon("join", file, "--complete", "--engine", "local")
    assert done.exit_code == 5
    assert "no key matches: 2 foreign events were given up" in done.stderr
    logs = folder / "logs"
    assert f"photon init --dry-run {logs}/queries.csv {logs}/clicks.csv" in done.stderr
    looked = photon("init", "--dry-run", logs / "queries.csv", logs / "clicks.csv")
    assert looked.exit_code == 0, looked.output
    assert "key: query" in looked.stdout
    assert "all logs are read anew" in done.stderr
    written(folder)
    assert joined(file) == 2
