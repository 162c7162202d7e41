"""The example's assets downstream: conditions fire when a release is complete; their numbers are right."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetMaterialization,
    DagsterInstance,
    Definitions,
    EvaluateAutomationConditionsResult,
    evaluate_automation_conditions,
)
from deltalake import DeltaTable

from examples.click_rates.definitions import RATES, with_rates
from examples.click_rates.make_logs import DATACENTERS, DAY, QUERIES, clicks, make_logs, queries
from photon.dispatcher.shift.run import prepare, run_shift
from photon.registry.opening import close_registries
from photon.resources.environment import LocationSettings, location_settings

on_spark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]
PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> LocationSettings:
    folder = tmp_path_factory.mktemp("click_rates")
    shutil.copy(PROJECT / "examples" / "click_rates" / "pipeline.yaml", folder)
    make_logs(folder)
    return location_settings({"PHOTON_PIPELINES": str(folder / "pipeline.yaml")})


class Conditions:
    """Automation conditions, which ask for assets tick by tick."""

    def __init__(self, defs: Definitions, instance: DagsterInstance) -> None:
        self._defs, self._instance = defs, instance
        self._last: EvaluateAutomationConditionsResult | None = None
        self.ask()  # so that nothing that is already there is news

    def ask(self) -> set[str]:
        """Return the assets that are asked for now; all are of the same day."""
        self._last = evaluate_automation_conditions(
            self._defs, self._instance, cursor=self._last.cursor if self._last else None
        )
        found = {
            result.key.path[-1]: set(result.true_subset.expensively_compute_asset_partitions())
            for result in self._last.results
            if not result.true_subset.is_empty
        }
        assert {each.partition_key for some in found.values() for each in some} <= {DAY}
        return set(found)


def test_a_rate_is_made_when_a_release_is_complete_up_to_the_end_of_the_day_and_what_it_is_made_of_is_sound(
    settings: LocationSettings, instance: DagsterInstance
) -> None:
    (served,) = settings.served
    conditions = Conditions(with_rates(settings), instance)

    def complete(*hours: int) -> None:
        key = served.asset_key("release")
        for hour in hours:
            partition = f"{DAY}-{hour:02}:00"
            instance.report_runless_asset_event(AssetMaterialization(key, partition=partition))

    def make_clicks_a_query(passed: bool) -> None:
        key = served.asset_key("clicks_a_query")
        instance.report_runless_asset_event(AssetMaterialization(key, partition=DAY))
        check = AssetCheckEvaluation(key, "adds_up", passed=passed, metadata={}, blocking=True)
        instance.report_runless_asset_event(check)

    complete(*range(23))
    assert conditions.ask() == set(), "the last hour of the day is not complete"
    complete(23)
    assert "clicks_a_query" in conditions.ask()
    make_clicks_a_query(passed=False)
    assert "click_through_rate" not in conditions.ask(), "a check upstream has failed"
    make_clicks_a_query(passed=True)
    assert "click_through_rate" in conditions.ask()
    assert conditions.ask() == set(), "asked for once"


@pytest.fixture(scope="module")
def made(settings: LocationSettings, shared_spark: None) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """The rows of each rate, made from what two datacenters have joined."""
    (served,) = settings.served
    prepare(served.pipeline)
    for datacenter in DATACENTERS:
        run_shift(served.pipeline, datacenter, "complete")
    close_registries()
    job = with_rates(settings).resolve_implicit_global_asset_job_def()
    with DagsterInstance.ephemeral() as ephemeral:
        keys = [served.asset_key(rate.name) for rate in RATES]
        result = job.execute_in_process(instance=ephemeral, partition_key=DAY, asset_selection=keys)
    assert all(check.passed for check in result.get_asset_check_evaluations())
    lake = served.pipeline.file.parent / "lake"
    yield {rate.name: DeltaTable(str(lake / rate.name)).to_pyarrow_table().to_pylist() for rate in RATES}
    close_registries()


class TestOnSpark:
    pytestmark = on_spark

    def test_the_clicks_a_query_of_each_hour_are_those_of_the_logs(self, made: Any) -> None:
        by_hour = Counter(click["time"][11:13] for click in clicks())
        asked = {hour: {c["query_id"] for c in clicks() if c["time"][11:13] == hour} for hour in by_hour}
        expected = {int(hour): (n, n / len(asked[hour])) for hour, n in by_hour.items()}
        found = {row["hour"]: (row["clicks"], row["clicks_a_query"]) for row in made["clicks_a_query"]}
        assert found == expected
        assert sum(clicks for clicks, _ in found.values()) == QUERIES

    def test_the_click_through_rate_of_each_country_is_that_of_the_logs(self, made: Any) -> None:
        clicked = {click["query_id"] for click in clicks()}
        asked = Counter(query["country"] for query in queries())
        answered = Counter(query["country"] for query in queries() if query["query_id"] in clicked)
        found = {row["country"]: (row["queries"], row["rate"]) for row in made["click_through_rate"]}
        assert found == {each: (n, pytest.approx(answered[each] / n)) for each, n in asked.items()}
