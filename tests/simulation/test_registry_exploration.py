"""All that can happen in small cases, on the registry's own rounds."""

from __future__ import annotations

import pytest

from tests.simulation.exploration import explore
from tests.simulation.exploration_cases import CASES, EAST, WEST
from tests.simulation.exploration_states import Limits


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.takes_minutes])
def test_no_order_of_messages_breaks_a_rule(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    explored = CASES[name].explore()
    with capsys.disabled():
        print(f" {name}: {explored.states} states ", end="")
    assert explored.problem is None, "\n".join(explored.trace)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.takes_minutes])
def test_no_order_of_messages_breaks_a_rule_in_a_larger_case(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    test_no_order_of_messages_breaks_a_rule(name, capsys)


def test_an_exploration_that_would_not_end_says_so() -> None:
    with pytest.raises(AssertionError, match="more than 50 states"):
        explore(((("commit", EAST),), (("commit", WEST),)), 3, Limits(states=50))
