"""Twenty and more clients far away from their endpoints: the rules, and bounds in calm weather."""

from __future__ import annotations

import pytest

from tests.simulation.distant_simulation import FIRST_HORIZON_US, DistantSimulation, simulate

QUICK_SEEDS = range(32, 40)
SLOW_SEEDS = range(32)
LONG_SEEDS = range(40, 1_500)
DUELS = (250, 360, 368)  # a repair of an endpoint and a claim go for the same id


def test_clients_far_away_are_told_what_is_so_and_none_is_held_up() -> None:
    simulations = [DistantSimulation(seed) for seed in QUICK_SEEDS]
    for simulation in simulations:
        simulation.run()
    # What these seeds do is worth checking.
    operations = [operation for s in simulations for operation in s.calls.operations]
    assert {o.answer for o in operations} >= {"won", "lost", "joined", "free", "too old", "fenced"}
    registers = [s.observer.register for s in simulations]
    assert any(len(register.configs) > 1 for register in registers)
    assert any(register.boundary_us for register in registers)
    assert any(register.members.version > 1 for register in registers)
    assert any((register.horizon_us or 0) > FIRST_HORIZON_US for register in registers)
    assert {s.is_calm for s in simulations} == {s.over_requests for s in simulations} == {True, False}
    claims = [(o.begin, o.id, o.token) for o in operations if o.kind == "commit"]
    assert len(claims) > len(set(claims)), "no claim came twice in a call"


@pytest.mark.parametrize("seed", DUELS)
def test_a_claim_and_a_repair_do_not_outbid_each_other_until_the_deadline(seed: int) -> None:
    assert simulate(seed) is None


@pytest.mark.slow
@pytest.mark.parametrize("first", SLOW_SEEDS[::8])
def test_so_it_is_in_more_seeds(first: int) -> None:
    for seed in range(first, first + 8):
        assert (seed, simulate(seed)) == (seed, None)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_so_it_is_in_many_seeds() -> None:
    for seed in LONG_SEEDS:
        assert (seed, simulate(seed)) == (seed, None)
