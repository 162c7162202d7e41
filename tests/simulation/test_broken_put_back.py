"""Restored stores without the rules that see to them: a story finds each. See `tests.simulation.catching`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher.recovery.registry_watch import RegistryWatch
from photon.upkeep import refill
from tests.simulation import put_back_stories as stories
from tests.simulation.catching import caught_by_story

Patch = pytest.MonkeyPatch


def test_a_join_that_does_not_look_whether_the_registry_has_its_rows_joins_again(
    tmp_path: Path, monkeypatch: Patch
) -> None:  # A23
    monkeypatch.setattr(RegistryWatch, "check", lambda self: None)
    story = partial(stories.an_older_registry_is_put_back, tmp_path)
    caught_by_story(story, because="an event has two rows")


def test_a_refill_that_fences_no_epoch_lets_a_process_commit_a_second_row(
    tmp_path: Path, monkeypatch: Patch
) -> None:  # B19
    monkeypatch.setattr(refill._Refill, "_fence_one", lambda *_: None)
    story = partial(stories.a_process_works_while_the_registry_is_filled, tmp_path)
    caught_by_story(story, because="an event has two rows")
