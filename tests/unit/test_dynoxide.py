"""Finding dynoxide and building it, with a stand-in for cargo: no network, no Rust."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from photon.toolchain import dynoxide
from photon.toolchain.dynoxide import CRATE_VERSION, DynoxideMissing, crate_command, dynoxide_command
from photon.toolchain.fetched import STAMP

BUILDS = '#!/bin/sh\necho "$@" > "$(dirname "$0")/asked"\nexit {status}\n'


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


def built_in(home: Path) -> Path:
    return home / ".cache" / "photon" / f"dynoxide-{CRATE_VERSION}" / "bin" / "dynoxide"


def test_without_dynoxide_the_error_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(DynoxideMissing, match="make setup"):
        dynoxide_command()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(DynoxideMissing, match="make dynoxide"):
        dynoxide_command()


def test_one_that_was_fetched_goes_before_one_that_was_built_and_that_before_one_on_path(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    on_path = executable(path / "dynoxide")
    assert dynoxide_command() == str(on_path)
    built = executable(built_in(tmp_path))
    assert dynoxide_command() == str(built)
    ready = dynoxide.prebuilt()
    assert ready is not None
    fetched = executable(ready.folder / "dynoxide")
    assert dynoxide_command() == str(built), "half a fetch does not count"
    (ready.folder / STAMP).write_text(ready.stamp())
    assert dynoxide_command() == str(fetched)


def test_the_crates_version_is_the_one_that_was_built_here(path: Path, tmp_path: Path) -> None:
    executable(path / "dynoxide")
    with pytest.raises(DynoxideMissing, match=f"{CRATE_VERSION} is not built.*make dynoxide"):
        crate_command()
    built = executable(built_in(tmp_path))
    assert crate_command() == str(built)


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
    assert (
        f"--locked --quiet --version {CRATE_VERSION} --root {tmp_path}/.cache/photon/dynoxide-{CRATE_VERSION}"
        in asked
    )


def test_a_build_that_fails_is_a_failure(path: Path) -> None:
    executable(path / "cargo", BUILDS.format(status=101))
    assert dynoxide.main([]) == 1


def test_one_that_was_built_is_not_built_again(path: Path, tmp_path: Path) -> None:
    executable(built_in(tmp_path))
    executable(path / "cargo", BUILDS.format(status=0))
    assert dynoxide.main([]) == 0
    assert not (path / "asked").exists()
