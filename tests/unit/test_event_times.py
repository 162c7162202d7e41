"""Events have the times that their ids carry, or else those of their records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from photon.pipeline.event_time import event_time_us, event_times_us
from photon.pipeline.sections import ForeignLog
from photon.process.clock import NO_TIME_US

PLAIN = ForeignLog(files="*.jsonl", format="jsonl", id=("id",), time="time", key=("query",))
TIMED = PLAIN.model_copy(update={"id_codec": "server_process_timestamp", "id_time_unit": "ms"})
IDS = pa.array(["10.0.0.1:7:1700", "other", "2001:db8::1:7:9"])


def test_without_a_codec_an_event_was_when_its_record_says():
    times_us = np.array([1, -2, 3])
    assert event_times_us(IDS, times_us, PLAIN).tolist() == [1, -2, 3]


def test_the_time_that_an_id_carries_goes_before_that_of_the_record():
    assert event_times_us(IDS, np.array([1, 2, 3]), TIMED).tolist() == [1_700_000, 2, 9_000]


@pytest.mark.parametrize(
    "chunks", [pa.array, lambda values: pa.chunked_array([values[:1], values[1:]], pa.int64())]
)
def test_an_event_without_any_time_is_passed_by_no_boundary(chunks):
    times_us = chunks([None, None, 5])
    assert event_times_us(IDS, times_us, PLAIN).tolist() == [NO_TIME_US, NO_TIME_US, 5]
    assert event_times_us(IDS, times_us, TIMED).tolist() == [1_700_000, NO_TIME_US, 9_000]


def test_an_id_that_carries_more_than_the_largest_time_carries_none():
    late = pa.array([f"host:1:{2**63}", f"host:1:{2**63 - 1}", f"host:1:{2**63 - 2}"])
    log = TIMED.model_copy(update={"id_time_unit": "us"})
    assert event_times_us(late, np.array([1, 2, 3]), log).tolist() == [1, 2, 2**63 - 2]


@pytest.mark.parametrize("log", [PLAIN, TIMED])
def test_one_event_was_when_columns_say(log):
    times_us = [4, None, 6]
    one_by_one = [
        event_time_us(event_id, time_us, log)
        for event_id, time_us in zip(IDS.to_pylist(), times_us, strict=True)
    ]
    assert one_by_one == event_times_us(IDS, pa.array(times_us), log).tolist()
