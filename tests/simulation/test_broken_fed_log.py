"""Leave out the rule of fed logs (protocol G6), and a story finds it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher import completion
from photon.feed.marker import Marker
from tests.simulation.catching import caught_by_story
from tests.simulation.feed_stories import FedWorld, a_file_that_the_marker_names_is_awaited


def test_a_marker_that_is_believed_before_its_files_gives_up_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # G6
    watermark_us = completion.fed_watermark_us

    def believed(marker: Marker, files: object, *known: Any) -> int | None:
        return watermark_us(replace(marker, last_file=None), [], *known)

    monkeypatch.setattr(completion, "fed_watermark_us", believed)
    story = partial(a_file_that_the_marker_names_is_awaited, FedWorld(tmp_path))
    caught_by_story(story, because="an event was given up")
