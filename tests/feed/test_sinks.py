"""Which sink a target names, and what goes together."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from photon.feed.cursor_file import FollowedAlready
from photon.feed.sink import Fed
from photon.feed.sinks import sink_of
from photon.feed.stdout import StandardOutput
from photon.process.errors import WrongUsage
from photon.process.extras import ExtraMissing
from tests.feed.made_steps import FED, release, step

UNJOINED = Fed(FED.pipeline, FED.name, "unjoined")


def test_without_a_target_lines_go_to_standard_output_with_the_cursor_that_is_named(tmp_path: Path) -> None:
    cursor = tmp_path / "cursor.json"
    (tmp_path / "cursor.json.1-2.unfinished").touch()  # a killed process left it
    with (tmp_path / "out").open("wb") as out:
        with sink_of(None, FED, out, cursor_file=cursor) as sink:
            sink.deliver([step(1)])
            with pytest.raises(FollowedAlready), sink_of(None, FED, out, cursor_file=cursor):
                pass
        with sink_of(None, FED, out, cursor_file=cursor) as sink:
            assert sink.cursor() == release(1)
        with sink_of(None, FED, out, takes_changes=True) as sink:
            assert isinstance(sink, StandardOutput)
            assert sink.cursor() is None
            assert sink.takes_changes
    assert {path.name for path in tmp_path.iterdir()} == {"out", "cursor.json", "cursor.json.lock"}


@pytest.mark.parametrize("url", ["postgresql://localhost/db", "postgres://localhost/db"])
def test_a_url_of_postgresql_names_a_table_of_it(url: str) -> None:
    with sink_of(url, FED, sys.stdout.buffer, into="mine") as sink:
        assert type(sink).__name__ == "PostgresTable"
        assert (sink.is_table, sink.takes_changes) == (True, False)


def test_any_other_target_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sink_of("fed/east", FED, sys.stdout.buffer) as sink:
        sink.deliver([step(1)])
        with pytest.raises(FollowedAlready), sink_of("fed/east", FED, sys.stdout.buffer):
            pass
    assert (tmp_path / "fed" / "east" / "000000000001.jsonl").exists()


def test_a_folder_takes_joined_rows_only() -> None:
    with pytest.raises(WrongUsage, match="joined rows only"), sink_of("fed", UNJOINED, sys.stdout.buffer):
        pass


@pytest.mark.parametrize("url", ["mysql://localhost/db", "s3://a/b?c"])
def test_a_url_of_anything_else_is_refused(url: str) -> None:
    with (
        pytest.raises(WrongUsage, match=r"expected a folder, postgresql://\.\.\. or"),
        sink_of(url, FED, sys.stdout.buffer),
    ):
        pass


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    out = sys.stdout.buffer
    with pytest.raises(WrongUsage, match="--into names a table"), sink_of(None, FED, out, into="mine"):
        pass
    cursor = tmp_path / "cursor.json"
    with (
        pytest.raises(WrongUsage, match="--cursor is for standard output"),
        sink_of("postgresql://localhost/db", FED, out, cursor_file=cursor),
    ):
        pass
    with pytest.raises(WrongUsage, match="--format arrow is for"), sink_of("fed", FED, out, form="arrow"):
        pass


def test_without_its_library_postgresql_is_refused_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with (
        pytest.raises(ExtraMissing, match=r"pip install 'photon-join\[postgres\]'"),
        sink_of("postgresql://localhost/db", FED, sys.stdout.buffer),
    ):
        pass
