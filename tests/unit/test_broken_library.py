"""A start refuses a delta-rs that takes two commits on one snapshot, and tries each version once (A3)."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import deltalake
import pytest

from photon.storage import delta, library_trial
from photon.storage.library_trial import TESTED, LibraryBreaksCommits, refuse_broken_library, why_broken

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says so, in an environment in which nothing was tried yet."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path / "share" / "photon" / f"deltalake-{deltalake.__version__}.tried"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta-rs that looks at the newest version before it commits, whatever its handle saw."""

    def commit(handle: deltalake.DeltaTable, *given: object) -> None:
        handle.update_incremental()
        delta.commit_files(handle, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(library_trial, "commit_files", commit)


def test_the_installed_library_is_tried_once(tried: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_broken_library()
    assert tried.exists()
    monkeypatch.setattr(library_trial, "why_broken", lambda folder: "it is tried again")
    refuse_broken_library()


@pytest.mark.usefixtures("broken")
def test_a_library_that_takes_both_of_two_commits_is_refused_each_time(tried: Path) -> None:
    for _ in range(2):
        with pytest.raises(LibraryBreaksCommits, match=rf"took both.* pip install deltalake=={TESTED}"):
            refuse_broken_library()
    assert not tried.exists()


def test_where_nobody_may_note_it_the_start_goes_on(tried: Path) -> None:
    tried.parent.parent.write_text("a file where a folder would be")
    refuse_broken_library()
    assert why_broken(tried.parents[2] / "table") is None


def test_the_version_that_a_message_names_is_the_one_that_all_tests_have() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert re.search(r"^deltalake==(\S+)", lock, re.MULTILINE)[1] == TESTED  # type: ignore[index]


def test_libraries_that_decide_what_is_committed_and_read_end_below_their_next_minor_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ranges = dict(re.findall(r"^(\w+)>=(\S+)$", "\n".join(project["dependencies"]), re.MULTILINE))
    for name in ("deltalake", "duckdb", "obstore", "pyarrow"):
        low, high = re.findall(r"(\d+)\.(\d+)[^<]*<(\d+)\.(\d+)", ranges[name])[0][:2], ranges[name]
        assert high.endswith(f",<{low[0]}.{int(low[1]) + 1}")
