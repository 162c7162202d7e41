"""The real logs: they are found, and what is expected of them is what their README and a plain join say."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from tests.e2e.real_logs import (
    FOLDER_VARIABLE,
    FOREIGN_FILE,
    PRIMARY_FILE,
    SET_FOLDER,
    RealLogs,
    made,
)


@pytest.fixture(scope="module", params=["real", "made"])
def real_logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RealLogs:
    folder = tmp_path_factory.mktemp("logs")
    return RealLogs.open_or_make(folder) if request.param == "real" else made(folder)


def test_the_expectation_is_that_of_the_readme(real_logs: RealLogs) -> None:
    expectation = real_logs.expectation()
    ids = expectation.joined.column("event_id").to_pylist()
    assert len(ids) == len(set(ids)) == real_logs.joined
    assert len(expectation.unjoinable) == real_logs.unjoinable
    assert not expectation.unjoinable & set(ids)


def test_the_expected_values_are_those_of_a_join_in_plain_python(real_logs: RealLogs) -> None:
    def rows(file: str) -> list[dict[str, str]]:
        with gzip.open(real_logs.folder / file, "rt", newline="") as text:
            return list(csv.DictReader(text))

    primary = {row["key"]: row for row in rows(PRIMARY_FILE)}
    expected = {}
    for row in rows(FOREIGN_FILE):
        of = primary.get(row["key"])
        if of is not None:
            expected[row["event_id"]] = row | {f"primary_{name}": value for name, value in of.items()}
    assert {row["event_id"]: row for row in real_logs.expectation().joined.to_pylist()} == expected


def test_a_place_that_is_named_and_has_no_logs_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        RealLogs.open()


@pytest.mark.parametrize("below", ["", SET_FOLDER])
def test_the_logs_are_found_in_the_folder_that_is_named_or_in_theirs_below_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, below: str
) -> None:
    place = tmp_path / below
    place.mkdir(exist_ok=True)
    for name in (PRIMARY_FILE, FOREIGN_FILE):
        (place / name).touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert RealLogs.open() == RealLogs(place)
