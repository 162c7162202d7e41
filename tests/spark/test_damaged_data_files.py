"""Data files of a table that are not what was committed: `verify` names them, and the docs' remedy holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.shift.run import run_shift
from photon.jobs.verification import verify as verify_with
from photon.pipeline.file import Pipeline
from photon.storage.delta import LakeUnavailable, open_table
from photon.storage.replacing import data_files
from photon.upkeep.recovery import RecoveryPlan
from photon.verification.report import VerificationReport
from tests.spark.both_engines import verify_alone
from tests.support.csv_pipelines import joined_csv

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]

EVENTS = 6


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def emptied(data: bytes) -> bytes:
    return b""


def with_another_footer(data: bytes) -> bytes:
    return data[:-40] + bytes(32) + data[-8:]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder = tmp_path_factory.mktemp("damaged") / "Läden 100%"  # Spark tells it as a URI
    folder.mkdir()
    logs = {
        "q.csv": "q,at\n" + "".join(f"q{n},100\n" for n in range(EVENTS)),
        "c.csv": "c,q,at\n" + "".join(f"c{n},q{n},10{n}\n" for n in range(EVENTS)),
    }
    return joined_csv(folder, logs)


@pytest.fixture
def data_file(pipeline: Pipeline) -> Path:
    folder = pipeline.datacenters["east"].lake / "joined_events"
    assert isinstance(folder, Path)
    return folder / min(data_files(open_table(folder)))


def by_spark(pipeline: Pipeline, session: Any) -> VerificationReport:
    """DuckDB reads what it can of a file, Spark refuses more."""
    return verify_with(pipeline, ["east"], session=session)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "bytes, and was committed with"),
        pytest.param(emptied, "has 0 bytes, and was committed with", marks=pytest.mark.long),
        (with_another_footer, "can't be read as Parquet"),
    ],
)
def test_a_damaged_data_file_is_named_with_its_datacenter_and_its_remedy(
    pipeline: Pipeline, session: Any, data_file: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    whole = data_file.read_bytes()
    pattern = (
        f"^datacenter east: the data file {re.escape(str(data_file))} .*{said}.*; put it back from a copy"
    )
    data_file.write_bytes(damage(whole))
    try:
        with pytest.raises(LakeUnavailable, match=pattern):
            by_spark(pipeline, session)
    finally:
        data_file.write_bytes(whole)
    assert verify_alone(pipeline, ["east"]).ok


def test_a_file_that_is_gone_is_named_and_without_a_copy_it_is_taken_out_and_its_events_are_joined_again(
    pipeline: Pipeline, session: Any, data_file: Path
) -> None:
    data_file.unlink()
    with pytest.raises(LakeUnavailable, match=re.escape(f"such as {data_file}; put them back")):
        by_spark(pipeline, session)
    open_table(pipeline.datacenters["east"].lake / "joined_events").repair()
    found = verify_alone(pipeline, ["east"]).datacenters["east"]
    assert [finding.kind for finding in found.violations] == ["missing"]
    RecoveryPlan(pipeline, {"east": found.as_dict()}).apply()
    run_shift(pipeline, "east", "until_idle")
    mended = verify_alone(pipeline, ["east"])
    assert mended.ok, mended.as_dict()
    assert mended.rows == EVENTS
