"""Ids that carry their time, and the hash of ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.event_store.hashing import digests_of, hash_ids
from photon.pipeline.event_time import id_time_us
from tests.unit.event_store_world import hash_id

CODEC = "server_process_timestamp"


@pytest.mark.parametrize(
    ("unit", "timestamp", "expected_us"),
    [("s", 1_700_000_000, 1_700_000_000_000_000), ("ms", 1_700, 1_700_000), ("us", 17, 17), ("ns", 1_999, 1)],
)
def test_an_id_carries_its_time_in_the_unit_of_the_pipeline_file(unit, timestamp, expected_us) -> None:
    assert id_time_us(CODEC, f"10.0.0.1:4711:{timestamp}", unit) == expected_us


def test_an_ipv6_address_keeps_its_colons() -> None:
    assert id_time_us(CODEC, "2001:db8::1:4711:1700", "us") == 1_700


@pytest.mark.parametrize(
    "odd", ["", "1700", "host:1700", ":1:1700", "host:p:1700", "host:1:", "host:1:-5", "host:1:1.5", "h:1:²"]
)
def test_an_id_of_another_form_carries_no_time(odd) -> None:
    assert id_time_us(CODEC, odd, "us") is None


def test_a_time_too_large_for_64_bits_is_no_time() -> None:
    assert id_time_us(CODEC, f"host:1:{2**63}", "us") is None
    assert id_time_us(CODEC, "host:1:" + "9" * 10_000, "us") is None


def test_without_a_codec_no_id_carries_a_time() -> None:
    assert id_time_us(None, "host:1:1700", "us") is None


@given(st.lists(st.text(max_size=20) | st.text("ab", min_size=250, max_size=300)), st.integers(0, 5))
def test_the_hash_of_an_id_does_not_depend_on_its_neighbours(ids, cut) -> None:
    together = hash_ids(pa.array(ids, pa.string())[cut:])
    assert together.tolist() == [hash_id(each) for each in ids[cut:]]


def test_hashes_are_the_same_for_ever_as_they_are_stored() -> None:
    known = {
        "": 0,
        "a": 10361829843645232397,
        "10.0.0.1:4711:1700": 15315110311463279257,
        "x" * 300: 1533152188014638354,
    }
    assert [hash_id(text) for text in known] == list(known.values())


def test_similar_ids_have_hashes_of_their_own() -> None:
    ids = [
        f"{prefix}{number}{end}"
        for prefix in ("", "0", "a")
        for number in range(50_000)
        for end in ("", "\0")
    ]
    assert len(np.unique(hash_ids(ids))) == len(set(ids))


# Stored segments and waiting segments have these; other values need another version of their formats.
def test_the_hash_of_an_id_is_what_stored_segments_have() -> None:
    ids = ["", "q1", "12345678", "Läden-7", "x" * 256, "x" * 257]
    assert [f"{value:016x}" for value in hash_ids(ids).tolist()] == [
        "0000000000000000", "a63aaafcff1da56f", "fd4700adc592e838",
        "a98b32e6fe7c6c20", "479756005c7e3ab4", "76c3513e21d32a54",
    ]  # fmt: skip


def test_the_digest_of_a_line_is_what_stored_segments_have() -> None:
    lines = [b"", b'{"id": "q1"}', b"x" * 100, b"\xff\x00"]
    for binary in (pa.binary(), pa.large_binary()):
        assert [f"{value:016x}" for value in digests_of(pa.array(lines, binary)).tolist()] == [
            "2d06800538d394c2", "024dc1d8c9909e6e", "c90984ffdf50ce42", "0b06685630f819e7",
        ]  # fmt: skip
