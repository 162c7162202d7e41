"""Finding dynoxide: no network."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from photon.toolchain import dynoxide
from photon.toolchain.dynoxide import dynoxide_command
from photon.toolchain.fetched import STAMP


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, and a user without a dynoxide."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    return folder


def executable(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_one_that_was_fetched_goes_before_one_on_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    on_path = executable(path / "dynoxide")
    assert dynoxide_command() == str(on_path)
    ready = dynoxide.prebuilt()
    assert ready is not None
    fetched = executable(ready.folder / "dynoxide")
    assert dynoxide_command() == str(on_path), "half a fetch does not count"
    (ready.folder / STAMP).write_text(ready.stamp())
    assert dynoxide_command() == str(fetched)


def test_as_a_program_it_prints_the_path_or_says_what_is_missing(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dynoxide.main() == 1
    assert "There is no dynoxide." in capsys.readouterr().err
    on_path = executable(path / "dynoxide")
    assert dynoxide.main() == 0
    assert capsys.readouterr().out == f"{on_path}\n"
