"""Programs out of the npm registry: fetched whole, checked against a pinned hash, no Node."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from photon.toolchain import fetched
from photon.toolchain.fetched import FetchFailed
from photon.toolchain.npm import PUBLIC_REGISTRY, NpmProgram
from tests.unit.npm_folder import NpmFolder

PROGRAM = "#!/bin/sh\necho served\n"


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NpmFolder:
    monkeypatch.setattr(fetched, "RETRY_PAUSE_SECONDS", 0)
    return NpmFolder(tmp_path / "npm", monkeypatch)


@pytest.fixture
def program(npm: NpmFolder, tmp_path: Path) -> NpmProgram:
    package, version, sha512 = npm.publish("@maker/thing", "1.2.3", {"package/thing": PROGRAM})
    return NpmProgram("thing 1.2.3", tmp_path / "share" / "thing", package, version, sha512, "package/thing")


def test_a_program_is_fetched_and_can_be_run(program: NpmProgram) -> None:
    assert not program.is_there()
    program.fetch()
    assert program.is_there()
    assert (program.folder / "thing").read_text() == PROGRAM
    assert os.access(program.folder / "thing", os.X_OK)


def test_what_was_changed_on_the_way_is_refused_and_nothing_is_left_of_it(
    npm: NpmFolder, program: NpmProgram
) -> None:
    npm.publish("@maker/thing", "1.2.3", {"package/thing": PROGRAM + "something else\n"})
    with pytest.raises(FetchFailed, match="not the file that Photon was tested with"):
        program.fetch()
    assert os.listdir(program.folder.parent) == []


def test_another_version_is_fetched_anew(npm: NpmFolder, program: NpmProgram) -> None:
    program.fetch()
    _, version, sha512 = npm.publish("@maker/thing", "2.0.0", {"package/thing": "new"})
    newer = replace(program, version=version, sha512=sha512)
    assert not newer.is_there()
    newer.fetch()
    assert (newer.folder / "thing").read_text() == "new"


def test_a_registry_without_the_package_is_named_with_the_variable_that_names_another(
    npm: NpmFolder, program: NpmProgram
) -> None:
    npm.archive("@maker/thing", "1.2.3").unlink()
    with pytest.raises(FetchFailed, match=r"thing-1\.2\.3\.tgz.*npm_config_registry.*make dynoxide"):
        program.fetch()


def test_a_package_without_the_program_is_refused(npm: NpmFolder, program: NpmProgram) -> None:
    _, _, sha512 = npm.publish("@maker/thing", "1.2.3", {"package/other": PROGRAM})
    with pytest.raises(FetchFailed, match="has no package/thing"):
        replace(program, sha512=sha512).fetch()
    assert not program.folder.exists()


@pytest.mark.parametrize("variable", ["npm_config_registry", "NPM_CONFIG_REGISTRY"])
def test_npms_own_variable_names_the_registry_and_without_it_it_is_the_public_one(
    program: NpmProgram, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("npm_config_registry")
    monkeypatch.delenv("NPM_CONFIG_REGISTRY", raising=False)
    assert program.url() == f"{PUBLIC_REGISTRY}/@maker/thing/-/thing-1.2.3.tgz"
    monkeypatch.setenv(variable, "https://npm.example/mirror/")
    assert program.url() == "https://npm.example/mirror/@maker/thing/-/thing-1.2.3.tgz"
