"""Resharding decides how many ledgers a registry should have, and where their homes are (L7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Registry
from photon.registry.register import MOST_LEDGERS, Generation
from photon.upkeep.plans import PlanOutdated
from photon.upkeep.registry_state import RANGE_BYTES_PER_SECOND
from photon.upkeep.reshard import advise, homes_of, plan_reshard
from tests.registry.store_backends import pipeline_over
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

HALF = RANGE_BYTES_PER_SECOND / 2
AWS = ["https://dynamodb.eu-west-1.amazonaws.com"]


def pipeline(policy: str = "apply", local: bool = False) -> Pipeline:
    made = pipeline_over(AWS, Registry())
    resharding = made.registry.resharding.model_copy(update={"policy": policy})
    endpoints = "local" if local else made.registry.endpoints
    registry = made.registry.model_copy(update={"resharding": resharding, "endpoints": endpoints})
    return made.model_copy(update={"registry": registry})


def with_ledgers(number: int, homes: tuple[str, ...] = ("a", "b")) -> MemoryLedgers:
    ledgers = MemoryLedgers(ledgers=number)
    ledgers.decided.register = replace(ledgers.register, generations=(Generation(number, homes),))
    return ledgers


def test_ledgers_are_dealt_out_to_datacenters_evenly_and_in_ranges() -> None:
    assert homes_of(pipeline(), 2) == ("a", "b")
    assert homes_of(pipeline(), 5) == ("a", "a", "a", "b", "b")
    assert homes_of(pipeline(), 1) == ("a",)


@pytest.mark.parametrize(
    ("ledgers", "bytes_per_second", "wanted"),
    [
        (1, None, 2),  # one for each datacenter
        (2, None, 2),
        (2, HALF, 2),
        (2, HALF + 1, 4),
        (2, 4 * HALF, 8),
        (8, 0.0, 8),  # idle: it does not shrink
        (MOST_LEDGERS, 9 * HALF, MOST_LEDGERS),
    ],
)
def test_the_policy_doubles_ledgers_while_one_takes_too_much(
    ledgers: int, bytes_per_second: float | None, wanted: int
) -> None:
    found = advise(pipeline(), with_ledgers(ledgers).register, bytes_per_second)
    assert (found.ledgers, found.is_due) == (wanted, wanted != ledgers)


def test_a_local_registry_has_no_key_ranges_that_could_be_too_full() -> None:
    assert not advise(pipeline(local=True), with_ledgers(2).register, 9 * HALF).is_due


def test_homes_that_are_no_datacenters_are_a_reason_of_their_own() -> None:
    found = advise(pipeline(), with_ledgers(2, ("a", "gone")).register, None)
    assert (found.ledgers, found.is_due, found.homes) == (2, True, ("a", "b"))


def test_the_policy_is_put_in_force_once_and_then_nothing_is_due() -> None:
    ledgers = with_ledgers(1, ("a",))
    done = plan_reshard(pipeline(), memory_registry(ledgers, "one")).apply()
    assert (done.applied, done.ledgers_before, done.ledgers, done.generation) == (True, 1, 2, 1)
    assert ledgers.register.generations[-1].homes == ("a", "b")
    again = plan_reshard(pipeline(), memory_registry(ledgers, "two")).apply()
    assert (again.applied, again.is_due, again.generation) == (False, False, 1)


@pytest.mark.parametrize("policy", ["off", "propose"])
def test_without_the_word_of_the_pipeline_file_nothing_is_put_in_force(policy: str) -> None:
    ledgers = with_ledgers(1, ("a",))
    done = plan_reshard(pipeline(policy), memory_registry(ledgers)).apply()
    assert (done.applied, done.is_due) == (False, policy == "propose")
    assert len(ledgers.register.generations) == 1


def test_by_hand_any_number_is_had_and_asking_for_it_again_changes_nothing() -> None:
    ledgers = with_ledgers(2)
    assert plan_reshard(pipeline(), memory_registry(ledgers, "asks"), 5).expected.is_due
    assert len(ledgers.register.generations) == 1
    for applied in (True, False):
        done = plan_reshard(pipeline(), memory_registry(ledgers, f"rolls {applied}"), 5).apply()
        assert (done.applied, done.ledgers, done.generation) == (applied, 5, 1)
    assert plan_reshard(pipeline(), memory_registry(ledgers, "shrinks"), 1).apply().ledgers == 1


def test_a_plan_is_refused_once_another_generation_has_begun() -> None:
    ledgers = with_ledgers(2)
    plan = plan_reshard(pipeline(), memory_registry(ledgers, "plans"), 5)
    plan_reshard(pipeline(), memory_registry(ledgers, "is earlier"), 3).apply()
    with pytest.raises(PlanOutdated):
        plan.apply()
    assert [one.ledgers for one in ledgers.register.generations] == [2, 3]
