"""Keys and values of the registry: stable, sortable, unambiguous."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.pipeline.event_key import EventKey
from photon.registry.consensus.layout import (
    FIXED_SHARDS,
    KEY_BYTES,
    RELEASED_TOKENS,
    Cleared,
    Held,
    ItemKey,
    Tombstone,
    decode_value,
    encode_value,
    fast_value,
    holder_of,
    item_key,
    sortable_time,
    with_released,
)
from photon.registry.consensus.register import ShardConfig
from photon.registry.interface import Holder

CONFIGS = (ShardConfig(4, None, 1_000), ShardConfig(9, 1_000, None))
TIMES = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def test_an_item_lies_where_earlier_versions_have_put_it() -> None:
    # Stored registries depend on it: a change here is another registry.
    assert item_key(EventKey("abc"), ()) == ItemKey("fixed-00345", "iabc")
    assert item_key(EventKey("abc", 0), CONFIGS) == ItemKey("0-00001", "09223372036854775808iabc")


@given(TIMES, TIMES)
def test_keys_sort_as_their_times_do_also_before_1970(first_us: int, second_us: int) -> None:
    assert (first_us < second_us) == (sortable_time(first_us) < sortable_time(second_us))


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_ids_have_different_keys(first: str, second: str) -> None:
    assert (first == second) == (item_key(EventKey(first), ()) == item_key(EventKey(second), ()))


def test_an_id_that_looks_like_a_hashed_one_is_not_taken_for_it() -> None:
    hashed = item_key(EventKey("k" * 3_000), ()).s
    assert item_key(EventKey(hashed), ()).s != hashed


@pytest.mark.parametrize("time_us", [None, 5])
def test_a_key_is_never_longer_than_its_limit(time_us: int | None) -> None:
    for length in range(KEY_BYTES - 30, KEY_BYTES + 10):
        assert len(item_key(EventKey("k" * length, time_us), CONFIGS).s) <= KEY_BYTES


def test_long_ids_with_a_time_still_sort_by_it() -> None:
    earlier, later = (item_key(EventKey("k" * 3_000, t), CONFIGS).s for t in (-7, 7))
    assert earlier < later


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(ValueError, match="empty id"):
        item_key(EventKey(""), ())


def test_the_config_that_holds_the_time_gives_the_shard() -> None:
    shards = {time_us: item_key(EventKey("a", time_us), CONFIGS).p for time_us in (-1, 999, 1_000, 5_000)}
    assert [shard.split("-")[0] for shard in shards.values()] == ["0", "0", "1", "1"]


def test_ids_are_spread_over_all_shards() -> None:
    used = {item_key(EventKey(f"id-{i}"), ()).p for i in range(20_000)}
    assert len(used) == FIXED_SHARDS


TOKENS = st.text(min_size=1).filter(lambda text: "\n" not in text)
RELEASED = st.lists(TOKENS, min_size=1).map(tuple)
VALUES = (
    st.builds(Held, TOKENS, st.just(()) | RELEASED)
    | st.builds(Cleared, st.text(min_size=1))
    | st.builds(Tombstone, RELEASED)
)


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: Held | Cleared | Tombstone) -> None:
    assert decode_value(encode_value(value)) == value


def test_a_fresh_token_is_written_as_the_fast_round_inserts_it() -> None:
    assert encode_value(Held("e:1")) == fast_value("e:1")


@pytest.mark.parametrize("token", ["", ":no datacenter", "two\nlines:1"])
def test_a_token_that_could_not_be_told_apart_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="is not a token"):
        fast_value(token)


def test_a_text_that_no_registry_stores_is_refused() -> None:
    with pytest.raises(ValueError, match="no registry value"):
        decode_value("Z:what")


def test_a_holder_is_named_with_or_without_his_token() -> None:
    assert holder_of(Held("east:e:1#p:1:0")) == Holder("east", "east:e:1#p:1:0")
    assert holder_of(Cleared("east")) == Holder("east", None)


def test_the_oldest_released_tokens_are_forgotten_at_the_limit() -> None:
    full = tuple(f"e:{i}" for i in range(RELEASED_TOKENS))
    assert with_released(full, "e:new") == (*full[1:], "e:new")
