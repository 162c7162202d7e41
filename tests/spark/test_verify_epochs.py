"""`verify` after a lost state: a row is compared with that record of its id that it was made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.shift.run import run_shift
from photon.pipeline.file import Pipeline
from photon.storage.tables import OutputTable
from photon.verification.report import DatacenterReport
from tests.spark.both_engines import verify
from tests.support.csv_pipelines import joined_csv

pytestmark = pytest.mark.timeout(900)

HEADER, ROW = "c,q,at,v\n", "c1,q1,101,{}\n"
JOINED, OTHER = "c2,q1,102,z\n" + ROW.format("first"), ROW.format("second")

Verify = Callable[[], DatacenterReport]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Event c1 is joined from `c_b.csv`; then another record of it comes, which a new epoch meets first."""
    logs = {"q.csv": "q,at,text\nq1,100,hello\n", "c_b.csv": HEADER + JOINED}
    pipeline = joined_csv(tmp_path_factory.mktemp("again"), logs)
    east = pipeline.datacenters["east"]
    (east.logs / "c_a.csv").write_text(HEADER + OTHER)
    run_shift(pipeline, "east", "complete")
    shutil.rmtree(east.state)
    run_shift(pipeline, "east", "complete")
    return pipeline


@pytest.fixture(scope="module")
def verify_now(pipeline: Pipeline, perhaps_session: Any) -> Verify:
    return lambda: verify(pipeline, ["east"], session=perhaps_session).datacenters["east"]


def test_a_row_is_right_though_the_new_epoch_meets_another_record_of_its_id_first(verify_now: Verify) -> None:
    report = verify_now()
    assert not report.findings, report.as_dict()
    assert report.classes == {"joined": 2, "duplicates": 1}
    assert report.rows_not_compared == 0


def test_a_value_of_the_other_record_is_wrong_in_the_row_of_this_one(
    pipeline: Pipeline, verify_now: Verify
) -> None:
    table = OutputTable(pipeline.datacenters["east"].lake, "joined_events").load()
    version = table.version()
    table.update({"v": "'second'"}, predicate="_event_id = 'c1'")
    (found,) = verify_now().findings
    table.restore(version)
    assert found.kind == "different_values"
    assert [one.detail for one in found.examples] == ["v is 'second', a join now gives 'first'"]


def test_a_row_whose_own_record_went_with_its_log_is_not_compared(
    pipeline: Pipeline, verify_now: Verify, tmp_path: Path
) -> None:
    log = pipeline.datacenters["east"].logs / "c_b.csv"
    hidden = log.rename(tmp_path / "hidden.csv")
    report = verify_now()
    hidden.rename(log)
    assert not report.violations, report.as_dict()
    assert report.rows_not_compared == 2
