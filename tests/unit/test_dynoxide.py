"""Finding dynoxide and building it, with a stand-in for cargo: no network, no Rust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from photon.toolchain import dynoxide
from photon.toolchain.dynoxide import VERSION, DynoxideMissing, dynoxide_command

BUILDS = '#!/bin/sh\necho "$@" > "$(dirname "$0")/asked"\nexit {status}\n'


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, and a user without a dynoxide."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


def executable(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_without_dynoxide_the_error_says_what_to_do(path: Path) -> None:
    with pytest.raises(DynoxideMissing, match="make dynoxide"):
        dynoxide_command()


def test_one_on_path_is_found_and_one_that_was_built_goes_before_it(path: Path, tmp_path: Path) -> None:
    on_path = executable(path / "dynoxide")
    assert dynoxide_command() == str(on_path)
    built = executable(tmp_path / ".cache" / "photon" / f"dynoxide-{VERSION}" / "bin" / "dynoxide")
    assert dynoxide_command() == str(built)


def test_without_cargo_nothing_is_built_and_nothing_fails(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dynoxide.main([]) == 0
    assert "make dynoxide" in capsys.readouterr().err


def test_the_path_of_one_that_is_not_there_is_an_error(path: Path) -> None:
    executable(path / "cargo", BUILDS.format(status=0))
    assert dynoxide.main(["--path"]) == 1
    assert not (path / "asked").exists()


def test_cargo_builds_the_pinned_version_into_the_users_cache(path: Path, tmp_path: Path) -> None:
    executable(path / "cargo", BUILDS.format(status=0))
    assert dynoxide.main([]) == 0
    asked = (path / "asked").read_text()
    assert f"--locked --quiet --version {VERSION} --root {tmp_path}/.cache/photon/dynoxide-{VERSION}" in asked


def test_a_build_that_fails_is_a_failure(path: Path) -> None:
    executable(path / "cargo", BUILDS.format(status=101))
    assert dynoxide.main([]) == 1


def test_one_that_is_there_is_not_built_again(path: Path) -> None:
    executable(path / "dynoxide")
    executable(path / "cargo", BUILDS.format(status=0))
    assert dynoxide.main([]) == 0
    assert not (path / "asked").exists()
