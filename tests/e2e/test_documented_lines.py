"""Indented command lines of the documents, run one after the other on a small pipeline, as an operator would.

`tests/unit/test_documented_commands.py` parses all of them; blocks of `bash` are run by `test_documents`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from photon.process.errors import NOT_DONE
from photon.registry.opening import close_registries
from tests.documents import ROOT
from tests.support.commands import photon

pytestmark = pytest.mark.server

# Verification is stored last, by a line of the registry's page: a recovery before it finds none.
OPERATIONS = ("watching", "messages", "verification", "registry", "backups")
PAGES = ("README.md", *(f"docs/operations/{name}.md" for name in OPERATIONS), "docs/several-pipelines.md")
DAY = "2026-01-31"  # the day that the documents' examples have
# These lines end otherwise on one small pipeline; the second value says why.
OTHERWISE = {
    "recover PIPELINE --recorded": (NOT_DONE, "no verification is stored yet"),
    "registry repair": (NOT_DONE, "there is one endpoint: tests/contract/test_three_servers.py repairs"),
}
QUERIES = f"query,at\nq1,{DAY}T10:41:00Z\nq2,{DAY}T10:42:01Z\n"
CLICKS = f"click,query,rank,at\nc1,q1,1,{DAY}T10:42:05Z\nc2;q2;2;{DAY}T10:42:06Z\n"
MENDS = 'def comma(line, reason):\n    return line.replace(b";", b",")\n'
PIPELINE = """
name: clicks
datacenters: {here: {logs: logs}}
primary: {files: queries.csv, format: csv, id: query, time: at, time_unit: iso8601}
foreign: {files: clicks.csv, format: csv, id: click, key: query, time: at, time_unit: iso8601}
"""


def lines_of(page: str) -> list[str]:
    """The indented lines that call photon on a pipeline, without `photon` and without what is behind them."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^    photon ([\w-]+ .*PIPELINE.*)$", text, flags=re.MULTILINE)
    return [line.partition(" #")[0].strip() for line in found]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pipeline that has joined one click; another line is a dead letter."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / "logs").mkdir()
    (folder / "logs" / "queries.csv").write_text(QUERIES)
    (folder / "logs" / "clicks.csv").write_text(CLICKS)
    (folder / "mends.py").write_text(MENDS)
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE)
    joined = photon("join", str(file), "--complete", "--engine", "local")
    assert joined.exit_code == 0, joined.output
    yield file
    close_registries()


def test_pages_have_such_lines() -> None:
    assert len([line for page in PAGES for line in lines_of(page)]) > 20


def marked() -> list[object]:
    """The lines in the order of the pages, each once; those of a rebuild start Spark."""
    with_spark = (pytest.mark.spark, pytest.mark.long)
    lines = dict.fromkeys(line for page in PAGES for line in lines_of(page))
    return [pytest.param(line, marks=with_spark if "--rebuild" in line else ()) for line in lines]


@pytest.mark.parametrize("line", marked())
def test_an_indented_line_does_what_its_page_says(
    pipeline: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pipeline.parent)  # where a backup goes
    filled = {"PIPELINE": str(pipeline), "NAME": "here", "URL": "http://127.0.0.1:9"}
    words = [filled.get(word, word) for word in shlex.split(line)]
    if line.startswith("registry state "):
        words += ["--within", "60"]  # a busy machine must not look as if it hung
    done = photon(*words)
    status = next((status for start, (status, _) in OTHERWISE.items() if line.startswith(start)), 0)
    assert done.exit_code == status, done.output
