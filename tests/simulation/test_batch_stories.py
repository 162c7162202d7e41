"""Rules of a batch that take a history to show: each is told step by step in `batch_stories`."""

from __future__ import annotations

import pytest

from tests.simulation import batch_stories as stories
from tests.simulation.world import World


@pytest.mark.parametrize("point", ["plan.after_store", "task.after_register"])
def test_a_cloned_state_takes_no_row_of_the_other_copy_for_its_own(world: World, point: str) -> None:
    stories.an_event_of_a_cloned_state_is_joined(world, point)


def test_a_process_whose_batch_another_plan_has_committed_ends_and_begins_a_new_epoch(world: World) -> None:
    stories.a_batch_that_another_plan_commits_ends_the_process(world)
