"""Whole clients and operators of the registry over a bad network, as many seeds as fit in the time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pytest

from photon.ledger.stores.breaker import Breaker
from photon.ledger.stores.copies import NoReply
from photon.testing.faulty_store import TIMED_OUT
from tests.simulation.history import Answer
from tests.simulation.registry_simulation import Simulation, first_failure, search, simulate

BUDGET_SECONDS = 75.0  # with the explorations about two minutes
SHORT_BUDGET_SECONDS = 10.0  # for every run of the fast tests
ALL_SEEDS = range(1_000_000)


@pytest.mark.long
def test_no_seed_breaks_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    ran, seed, problem = search(ALL_SEEDS, os.cpu_count() or 1, BUDGET_SECONDS)
    with capsys.disabled():
        print(f" {ran} seeds ", end="")
    assert problem is None, f"python -m tests.simulation.registry_simulation --seed {seed}: {problem}"


def test_no_seed_of_the_first_ones_breaks_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    ran, seed, problem = first_failure(ALL_SEEDS, SHORT_BUDGET_SECONDS)
    with capsys.disabled():
        print(f" {ran} seeds ", end="")
    assert problem is None, f"python -m tests.simulation.registry_simulation --seed {seed}: {problem}"


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_can_be_replayed(seed: int) -> None:
    first, again = Simulation(seed), Simulation(seed)
    first.run()
    again.run()
    assert first.calls.operations == again.calls.operations


def test_what_seeds_do_is_worth_checking() -> None:
    simulations = [Simulation(seed) for seed in range(40)]
    for simulation in simulations:
        simulation.run()
    answers = {operation.answer for s in simulations for operation in s.calls.operations}
    assert answers == set(get_args(Answer)) - {
        "fenced"
    }  # epochs end in `tests.simulation.distant_simulation`
    registers = [s.observer.register for s in simulations]
    assert any(len(register.configs) > 1 for register in registers)
    assert any(register.boundary_us for register in registers)
    # A repair takes three changes of the members; the last one of each seed is in good weather.
    assert any(register.members.version > 2 * 3 for register in registers)


def test_breakers_of_simulated_clients_hear_of_time_outs_and_have_endpoints_spared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: Counter[str] = Counter()
    right = Breaker.saw

    def saw(self: Breaker, slot: int, replies: Sequence[object]) -> None:
        heard.update(reply.reason for reply in replies if isinstance(reply, NoReply))
        right(self, slot, replies)

    monkeypatch.setattr(Breaker, "saw", saw)
    for seed in range(20):
        assert simulate(seed) is None
    print(dict(heard))
    assert heard[TIMED_OUT.reason] > 0
    assert any("it is being probed" in reason for reason in heard)
