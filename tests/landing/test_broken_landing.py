"""Random histories of landing, and landers that leave out a rule, each of which a history notices."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from photon.landing.lander import Lander
from photon.landing.marker import Landed
from photon.landing.partition import Partition
from photon.landing.partition_file import PartitionFile
from photon.landing.topic import Offsets
from tests.landing.histories import is_noticed, run
from tests.landing.landing_histories import TopicHistory

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_history_loses_a_message_or_calls_an_end_too_early(seed: int) -> None:
    run(TopicHistory, seed)


def _without_sync(_: PartitionFile) -> None:
    """K3: the marker is put before what it says is on disk."""


def _stable_end(real: Callable[..., None]) -> Callable[..., None]:
    """K6: where committed messages end is taken for the end."""

    def answered(self: Partition, as_of_us: int, as_of_elapsed_us: int, offsets: Offsets) -> None:
        real(self, as_of_us, as_of_elapsed_us, replace(offsets, end=offsets.stable_end))

    return answered


def _cutting(real: Callable[..., Partition]) -> Callable[..., Partition]:
    """K1: what lies behind the marked place is cut off, and written anew."""

    def begin(
        number: int, folder: Path, topic_id: str, where: Any, first: int, landed: Landed | None
    ) -> Partition:
        if landed is not None and landed.file is not None and (folder / landed.file).exists():
            os.truncate(folder / landed.file, landed.file_bytes)
        return real(number, folder, topic_id, where, first, landed)

    return begin


def _same_topic(_: Lander, __: object) -> None:
    """K5: nobody compares the topic's id."""


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        pytest.param(PartitionFile, "sync", lambda _: _without_sync, id="a_marker_before_its_sync"),
        pytest.param(Partition, "answered", _stable_end, id="an_end_that_hides_open_transactions"),
        pytest.param(Partition, "begin", _cutting, id="a_file_that_is_cut"),
        pytest.param(Lander, "_compare_topic", lambda _: _same_topic, id="another_topic_of_the_name"),
    ],
)
def test_a_lander_that_leaves_out_a_rule_is_noticed(
    owner: type, name: str, broken: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken(getattr(owner, name)))
    assert is_noticed(TopicHistory)
