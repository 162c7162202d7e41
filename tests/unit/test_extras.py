"""A use of Photon whose packages are not installed says in one sentence how to get them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from examples.demo.traffic import Traffic
from photon.cli.main import main
from photon.process.extras import PACKAGES, ExtraMissing, need_extra, need_extra_of


def test_a_use_whose_packages_are_installed_goes_on() -> None:
    for extra in PACKAGES:
        need_extra(extra)


@pytest.mark.parametrize(
    ("extra", "package"), [(extra, package) for extra, packages in PACKAGES.items() for package in packages]
)
def test_what_lacks_a_package_says_how_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, extra: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ExtraMissing, match=rf"^{package} is not .* pip install 'photon-join\[{extra}\]'"):
        need_extra(extra)


def test_an_import_that_fails_otherwise_is_a_defect_and_stays_one() -> None:
    need_extra_of(ModuleNotFoundError("No module named 'photon.gone'", name="photon.gone"))
    need_extra_of(ModuleNotFoundError("No module named 'pyspark.gone'", name="pyspark.gone"))


def test_a_join_on_spark_that_is_not_installed_names_the_way_to_get_it_and_the_way_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipeline = Traffic(1, ("east",)).write_pipeline(tmp_path)
    monkeypatch.delitem(sys.modules, "photon.jobs.batch_job", raising=False)
    for package in ("py4j", "py4j.protocol", "pyspark"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "logs" / "east").mkdir(parents=True)
    done = CliRunner().invoke(main, ["join", str(pipeline), "--complete", "--engine", "spark"])
    assert done.exit_code == 3, done.output
    last = done.output.strip().splitlines()[-1]
    assert "pip install 'photon-join[spark]', then: photon setup" in last
    assert "--engine local" in last


def test_setup_without_spark_says_that_there_is_nothing_to_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = CliRunner().invoke(main, ["setup"])
    assert done.exit_code == 0
    assert done.output.startswith("There is nothing to fetch")
    assert "photon-join[spark]" in done.output
