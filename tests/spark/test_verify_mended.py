"""`verify` on dead letters that were mended: rows are compared with the mended lines (docs/adr/0047)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from photon.dispatcher.shift.run import prepare, run_shift
from photon.pipeline.file import Pipeline
from photon.state.outcomes import Counts
from photon.storage.tables import OutputTable
from photon.upkeep.dead_letters.mending import plan_mending
from photon.upkeep.dead_letters.open_letters import plan_recovery_of_letters
from photon.verification.report import TERMS, DatacenterReport
from tests.spark.both_engines import verify
from tests.support.csv_pipelines import csv_pipeline

pytestmark = pytest.mark.timeout(900)

SETTINGS = "adapter: falls:Falls"
ADAPTER = '''
from pathlib import Path
import pyarrow.compute as pc
from photon.adapters import Adapted, Adapter, merge


class Falls(Adapter):
    """Fails on event d until it is mended, and drops it then."""

    def combine(self, foreign, primary):
        is_d = pc.equal(foreign["c"], "d").combine_chunks()
        if pc.any(is_d).as_py() and not (Path(__file__).parent / "mended").exists():
            raise ValueError("not this one")
        kept = pc.invert(is_d)
        return Adapted(merge(foreign, primary).filter(kept), kept)
'''
LINES = "c,q,at,v\na,q1,101,1\nb,q1,2\nc,q1,103,x3\nd,q1,104,4\ne,q1\n"
MENDED = {b"b,q1,2": "b,q1,102,2", b"c,q1,103,x3": "c,q1,103,3"}


@dataclass(frozen=True)
class Told:
    """A report, and what the dispatcher had counted before it."""

    report: DatacenterReport
    counts: Counts

    @property
    def equation(self) -> dict[str, int]:
        return {term: self.counts.as_dict().get(term, 0) for term in TERMS}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory, perhaps_session: Any) -> Pipeline:
    """A line is no record, a value has another type, the adapter fails: all of these but one are mended.

    Tests alter it, so each engine has one.
    """
    folder = tmp_path_factory.mktemp("mended")
    (folder / "falls.py").write_text(ADAPTER)
    logs = {"q.csv": "q,at,text\nq1,100,hello\n", "c.csv": LINES}
    pipeline = csv_pipeline(folder, logs, more=SETTINGS, columns="{v: int64}")
    prepare(pipeline)
    assert join(pipeline).of("dead_letters") == 4
    done = plan_mending(pipeline, "east", lambda line, reason: MENDED.get(line)).apply()
    assert (done.ordered.ordered, done.left) == (2, 2)
    (folder / "mended").touch()
    join(pipeline)
    assert plan_recovery_of_letters(pipeline, "east").apply().ordered == 1
    return pipeline


def join(pipeline: Pipeline) -> Counts:
    return run_shift(pipeline, "east", "complete").counts


def verified(pipeline: Pipeline, counts: Counts, session: Any) -> Told:
    return Told(verify(pipeline, ["east"], session=session).datacenters["east"], counts)


@pytest.fixture(scope="module")
def after_mending(pipeline: Pipeline, perhaps_session: Any) -> Told:
    return verified(pipeline, join(pipeline), perhaps_session)


@pytest.fixture(scope="module")
def with_a_forged_value(pipeline: Pipeline, after_mending: Told, perhaps_session: Any) -> Told:
    table = OutputTable(pipeline.datacenters["east"].lake, "joined_events").load()
    version = table.version()
    table.update({"v": "9"}, predicate="_event_id = 'b'")
    told = verified(pipeline, after_mending.counts, perhaps_session)
    table.restore(version)
    return told


@pytest.fixture(scope="module")
def after_a_lost_state(pipeline: Pipeline, with_a_forged_value: Told, perhaps_session: Any) -> Told:
    shutil.rmtree(pipeline.datacenters["east"].state)
    return verified(pipeline, join(pipeline), perhaps_session)


def test_rows_of_mended_records_are_sound_and_the_classes_add_up(after_mending: Told) -> None:
    assert not after_mending.report.findings, after_mending.report.as_dict()
    assert after_mending.report.rows_not_compared == 0
    assert after_mending.report.equation() == after_mending.equation
    assert after_mending.report.classes == {"joined": 3, "filtered": 1, "dead_letters": 1}


def test_a_value_that_is_not_that_of_the_mended_line_is_found(with_a_forged_value: Told) -> None:
    (found,) = with_a_forged_value.report.findings
    assert [(one.event_id, one.detail) for one in found.examples] == [("b", "v is 9, a join now gives 2")]


def test_a_row_of_an_earlier_epoch_is_compared_with_its_mended_line(after_a_lost_state: Told) -> None:
    assert not after_a_lost_state.report.findings, after_a_lost_state.report.as_dict()
    assert after_a_lost_state.report.equation() == after_a_lost_state.equation
    # The line of b is a dead letter again, for the state that knew of its mending is lost; its row is not.
    assert after_a_lost_state.report.classes == {"joined": 2, "filtered": 1, "dead_letters": 2}
    assert after_a_lost_state.report.rows_not_compared == 1
