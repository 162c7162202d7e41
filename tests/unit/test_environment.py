"""The settings in the environment, and which of them are refused."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from photon.pipeline.file import dagster_name
from photon.resources.environment import EnvironmentMistake, LocationSettings, location_settings


def pipeline_file(folder: Path, name: str = "clicks", datacenters: tuple[str, ...] = ("east", "west")) -> str:
    return str(Traffic(1, datacenters).write_pipeline(folder / name, name))


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    empty = dict.fromkeys(["PHOTON_DATACENTERS", "PHOTON_KEEP_RUNS_DAYS", "PHOTON_SPARK_MASTER"], "")
    environ = {"PHOTON_PIPELINES": pipeline_file(tmp_path)}
    assert location_settings({**environ, **empty}) == location_settings(environ)


def test_a_location_may_serve_one_datacenter_of_several(tmp_path: Path) -> None:
    environ = {"PHOTON_PIPELINES": pipeline_file(tmp_path), "PHOTON_DATACENTERS": "west"}
    assert [one.datacenters for one in location_settings(environ).served] == [("west",)]


def test_a_pipeline_without_the_datacenters_named_is_not_served(tmp_path: Path) -> None:
    files = [pipeline_file(tmp_path), pipeline_file(tmp_path, "views", ("north",))]
    environ = {"PHOTON_PIPELINES": ":".join(files), "PHOTON_DATACENTERS": " east, west "}
    found = location_settings(environ)
    assert [one.pipeline.name for one in found.served] == ["clicks"]
    (left_out,) = found.not_served
    assert left_out.file == files[1]
    assert left_out.why.startswith("PHOTON_DATACENTERS=' east, west ' names none of its datacenters: ")
    assert "expected one of north;" in left_out.why
    assert found.file_names()[files[1]] == "views"


def test_without_pipelines_nothing_is_served_and_the_log_says_what_to_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert location_settings({}) == location_settings({"PHOTON_PIPELINES": ":"}) == LocationSettings()
    assert "set PHOTON_PIPELINES" in caplog.text


def test_the_other_settings_are_read(tmp_path: Path) -> None:
    settings = location_settings({"PHOTON_KEEP_RUNS_DAYS": "0.5", "PHOTON_SPARK_MASTER": "local[8]"})
    assert (settings.keep_runs_days, settings.spark_master) == (0.5, "local[8]")


@pytest.mark.parametrize("days", ["soon", "-1", "nan"])
def test_a_bad_number_of_days_is_refused_by_name_and_value(days: str) -> None:
    with pytest.raises(
        EnvironmentMistake, match=f"PHOTON_KEEP_RUNS_DAYS='{days}': expected a number of days"
    ):
        location_settings({"PHOTON_KEEP_RUNS_DAYS": days})


def test_an_unknown_datacenter_is_refused_with_those_there_are(tmp_path: Path) -> None:
    environ = {"PHOTON_PIPELINES": pipeline_file(tmp_path), "PHOTON_DATACENTERS": "east,nowhere"}
    with pytest.raises(EnvironmentMistake, match=r"PHOTON_DATACENTERS='east,nowhere'.*of: east, west"):
        location_settings(environ)


def test_a_bad_pipeline_file_alone_is_left_out_with_its_problems(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad\nflavour: sweet\n")
    found = location_settings({"PHOTON_PIPELINES": str(tmp_path / "bad.yaml")})
    assert found.served == ()
    assert "bad.yaml:2: flavour" in found.not_served[0].why


def test_a_file_that_has_become_wrong_does_not_take_the_other_pipelines_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, spoilt = pipeline_file(tmp_path), pipeline_file(tmp_path, "views", ("north",))
    Path(spoilt).write_text(Path(spoilt).read_text() + "flavour: sweet\n")
    environ = {"PHOTON_PIPELINES": f"{good}:{spoilt}", "PHOTON_DATACENTERS": "east,north"}
    found = location_settings(environ)
    assert [one.pipeline.name for one in found.served] == ["clicks"]
    assert [one.file for one in found.not_served] == [spoilt]
    assert "is not served: mend the file, then reload the code location" in caplog.text
    assert "flavour: unknown key" in caplog.text


def test_a_pipeline_file_named_twice_is_refused(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    with pytest.raises(EnvironmentMistake, match="expected each pipeline file once"):
        location_settings({"PHOTON_PIPELINES": f"{file}:{file}"})


def test_a_file_has_one_name_whether_it_can_be_read_or_not(tmp_path: Path) -> None:
    files = [pipeline_file(tmp_path / "a"), pipeline_file(tmp_path / "b"), str(tmp_path / "my-views.yaml")]
    environ = {"PHOTON_PIPELINES": ":".join(files)}
    names = dict(zip(files, ["clicks", "clicks_2", "my_views"], strict=True))
    assert location_settings(environ).file_names() == names
    Path(files[0]).write_text("spoilt")
    assert location_settings(environ).file_names() == names


def test_of_pipelines_whose_names_dagster_cannot_tell_apart_the_first_is_served(tmp_path: Path) -> None:
    files = [pipeline_file(tmp_path, name) for name in ("a-b", "a_b", "c")]
    found = location_settings({"PHOTON_PIPELINES": ":".join(files)})
    assert [one.pipeline.name for one in found.served] == ["a-b", "c"]
    (left_out,) = found.not_served
    assert str(left_out).startswith(f"{files[1]} is not served: names have to differ in more than - and _")
    assert files[0] in left_out.why


def test_of_pipelines_that_name_the_same_folders_the_first_is_served(tmp_path: Path) -> None:
    first, second = (pipeline_file(tmp_path, name) for name in ("clicks", "views"))
    beside = Path(first).with_name("views.yaml")
    beside.write_text(Path(second).read_text())
    found = location_settings({"PHOTON_PIPELINES": f"{first}:{beside}:{second}"})
    assert [str(one.pipeline.file) for one in found.served] == [first, second]
    assert "is a folder of" in found.not_served[0].why
    assert "datacenters.NAME.lake and .state" in found.not_served[0].why


def test_datacenters_whose_names_dagster_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    environ = {"PHOTON_PIPELINES": pipeline_file(tmp_path, datacenters=("a-b", "a_b"))}
    (left_out,) = location_settings(environ).not_served
    assert re.search("clicks__a_b.* is one in Dagster", left_out.why)


def test_names_are_made_of_what_dagster_allows() -> None:
    assert dagster_name("search-clicks", "eu-west-1") == "search_clicks__eu_west_1"
