"""Three pipelines in one Dagster, with one registry: one is spoilt, and harms nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import DagsterRun, DagsterRunStatus

from examples.demo.process_tree import ProcessTree
from photon.pipeline.file import Pipeline, load_pipeline
from photon.state.view import view_state
from photon.testing.traffic import Traffic
from photon.verification.stored_reports import newest
from tests.e2e.own_dagster import daemon, instance_of, is_done, last_words
from tests.e2e.photon_process import joined_rows, photon
from tests.e2e.process_marks import marked, soon

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1_200)]

PATIENCE_SECONDS = 400.0
SETTINGS = """
adapter: adapter_of_{name}:join
shift: {{idle: 5s, report: 5s}}
retry: {{unjoinable_after: 5s, min_attempts: 2, max_delay: 1s, allowed_lateness: 1s}}
tailing: {{idle_after: 2s}}
verification: {{cron: "* * * * *"}}
backfill: {{first_look_days: 0}}
"""
ADAPTER = """
from photon.adapters import per_event

@per_event
def join(foreign, primary):
    return {{**foreign, "pipeline": "{name}"}}
"""
SPOILT = "raise RuntimeError('this adapter was never finished')\n"
ILLS = {"click_before_query": 3, "click_twice_same_file": 3, "click_twice_other_file": 3}


def pipeline_of(folder: Path, traffic: Traffic, name: str, adapter: str) -> Path:
    """A pipeline file beside the others, with the logs that all have, and the very same event ids."""
    places = {"east": f"lake: lake/{name}/east, state: state/{name}/east"}
    file = folder / f"{name}.yaml"
    file.write_text(traffic.pipeline_text(name, SETTINGS.format(name=name), places))
    (folder / f"adapter_of_{name}.py").write_text(adapter)
    return file


def is_verified(pipeline: Pipeline) -> bool:
    """Whether the schedule has had all of it verified after the last shift."""
    report = newest(pipeline, ["east"]).get("east")
    state = view_state(pipeline.datacenters["east"].state, 0)
    return report is not None and report.report["foreign"] == state.counts.foreign


def runs_of(folder: Path, name: str) -> list[DagsterRun]:
    with instance_of(folder, "east") as instance:
        return [run for run in instance.get_runs() if run.job_name.startswith(f"{name}__")]


def test_a_pipeline_that_is_spoilt_is_told_and_the_others_join_everything_once(
    tmp_path: Path, mark: str
) -> None:
    traffic = Traffic(11, ("east",), 50, 10, duration_seconds=20, ills=ILLS)
    traffic.write_all(tmp_path)
    spoilt = pipeline_of(tmp_path, traffic, "spoilt", SPOILT)
    good = [pipeline_of(tmp_path, traffic, name, ADAPTER.format(name=name)) for name in ("clicks", "views")]
    pipelines = [load_pipeline(file) for file in good]
    with ProcessTree([one.datacenters["east"].state for one in pipelines]) as tree:
        tree.start(daemon(tmp_path, spoilt, "east", *good))
        assert soon(lambda: all(is_done(one, "east") for one in pipelines), PATIENCE_SECONDS)
        assert soon(lambda: all(map(is_verified, pipelines)), PATIENCE_SECONDS)
        assert tree.ended() == {}
    assert soon(lambda: not marked(mark))

    for pipeline in pipelines:
        found = joined_rows(pipeline.file)
        ids = found["_event_id"].to_pylist()
        assert (len(ids), len(set(ids))) == (traffic.expected_outcomes().joined_total,) * 2
        assert set(found["pipeline"].to_pylist()) == {pipeline.name}, "another pipeline's adapter made a row"
        photon("verify", pipeline.file)
        statuses = {run.job_name: run.status for run in runs_of(tmp_path, pipeline.name)}
        assert {f"{pipeline.name}__shift", f"{pipeline.name}__verification"} <= statuses.keys()
        failed = [run for run in runs_of(tmp_path, pipeline.name) if run.status is DagsterRunStatus.FAILURE]
        assert failed == []

    shifts = [run for run in runs_of(tmp_path, "spoilt") if run.job_name == "spoilt__shift"]
    with instance_of(tmp_path, "east") as instance:
        said = str(last_words(instance.all_logs(shifts[0].run_id)))
    assert {run.status for run in shifts} == {DagsterRunStatus.FAILURE}
    assert "adapter_of_spoilt raised RuntimeError: this adapter was never finished" in said
    assert not (tmp_path / "state" / "spoilt").exists()
    assert not (tmp_path / "lake" / "spoilt").exists()
