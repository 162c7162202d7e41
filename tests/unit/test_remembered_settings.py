"""Every key of the pipeline file is classified: what becomes of a state that was begun with another value."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from photon.pipeline.file import Pipeline, identity_settings, load_pipeline
from photon.pipeline.remembered import (
    GOES_ON,
    NEW_EPOCH,
    REFUSED,
    WIDENS,
    changed_settings,
    remembered_settings,
)

SMALLEST = """
name: searches
datacenters: {east: {logs: logs}}
primary: {files: "q.csv", format: csv, id: query, time: at}
foreign: {files: "c.csv", format: csv, id: click, key: query, time: at}
"""


def written(folder: Path, text: str = SMALLEST) -> Pipeline:
    (folder / "p.yaml").write_text(text)
    return load_pipeline(folder / "p.yaml")


def keys(pipeline: Pipeline) -> set[str]:
    """The keys of the file, with one level of sections; what is below goes with its key."""
    found = set()
    for name in set(type(pipeline).model_fields) - {"file"}:
        section = getattr(pipeline, name)
        if isinstance(section, BaseModel):
            found |= {f"{name}.{key}" for key in type(section).model_fields}
        else:
            found.add(name)
    return found


def test_every_key_is_in_one_list_by_itself_or_with_its_section(tmp_path: Path) -> None:
    lists = [set(REFUSED), set(NEW_EPOCH), set(GOES_ON)]
    for key in sorted(keys(written(tmp_path))):
        names = {key, key.partition(".")[0]}
        homes = [names & each for each in lists if names & each]
        assert len(homes) == 1, f"{key}: what becomes of a state that was begun with another value?"


def test_no_list_names_a_key_that_is_not_there(tmp_path: Path) -> None:
    there = keys(written(tmp_path))
    sections = {key.partition(".")[0] for key in there}
    assert {*REFUSED, *NEW_EPOCH, *GOES_ON, *WIDENS} <= there | sections


def test_the_sections_of_the_logs_are_not_classified_as_a_whole() -> None:
    assert not {"primary", "foreign"} & {*REFUSED, *NEW_EPOCH, *GOES_ON}


def test_what_the_registry_refuses_is_refused_by_the_state(tmp_path: Path) -> None:
    identity = {key for key in identity_settings(written(tmp_path)) if key != "pipeline"}
    assert {f"foreign.{key}" for key in identity} | {"name"} == set(REFUSED)


def test_a_setting_that_an_older_state_does_not_know_has_not_changed(tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    older = {key: value for key, value in remembered_settings(pipeline).items() if key != "primary.quote"}
    assert changed_settings(older, pipeline) == []


def test_a_change_says_what_is_and_what_was(tmp_path: Path) -> None:
    before = remembered_settings(written(tmp_path))
    (changed,) = changed_settings(
        before,
        written(tmp_path, SMALLEST.replace("key: query", "key: [a, b]").replace("id: query", "id: [c, d]")),
    )[1:]
    assert str(changed) == 'foreign.key is ["a", "b"] and was ["query"]'
