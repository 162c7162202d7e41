"""Keys of items, and inserts, as Arrow columns: a round over many ids then makes no Python object for each.

`layout` says where an item lies and what it holds; here the same is computed for whole columns. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.registry.consensus.acceptor import FAST_BALLOT, Accept, Insert
from photon.registry.consensus.layout import (
    KEY_BYTES,
    SHARD_HASH_BYTES,
    TIME_DIGITS,
    ItemKey,
    fast_value,
    fenced_epoch,
    fixed_shards,
    item_key,
    shards_of,
)
from photon.registry.consensus.register import Register, ShardConfig
from photon.registry.interface import ClaimColumns, KeyColumns

T = TypeVar("T")
Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

_SIGN_BIT = np.uint64(1) << np.uint64(63)


@dataclass(frozen=True, slots=True)
class ItemColumn(Sequence[ItemKey]):
    """Where items lie; each key is made when it is asked for. `forms`: see `once`."""

    shards: pa.StringArray
    range_keys: pa.StringArray
    forms: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(keys: Sequence[ItemKey]) -> ItemColumn:
        """The same keys in columns."""
        if isinstance(keys, ItemColumn):
            return keys
        return ItemColumn(
            pa.array([key.p for key in keys], pa.string()), pa.array([key.s for key in keys], pa.string())
        )

    def take(self, indices: Indices) -> ItemColumn:
        """The items with these indices, in that order."""
        return ItemColumn(self.shards.take(pa.array(indices)), self.range_keys.take(pa.array(indices)))

    def __len__(self) -> int:
        return len(self.shards)

    @overload
    def __getitem__(self, index: int) -> ItemKey: ...
    @overload
    def __getitem__(self, index: slice) -> ItemColumn: ...
    def __getitem__(self, index: int | slice) -> ItemKey | ItemColumn:
        if isinstance(index, slice):
            return ItemColumn(self.shards[index], self.range_keys[index])
        return ItemKey(self.shards[index].as_py(), self.range_keys[index].as_py())


@dataclass(frozen=True, slots=True)
class InsertColumn(Sequence[Insert]):
    """Inserts, all with the same ballot or none; each is made when it is asked for. `forms`: see `once`."""

    items: ItemColumn
    values: pa.StringArray
    times: pa.StringArray
    ballot: str = FAST_BALLOT
    forms: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(inserts: Sequence[Insert]) -> InsertColumn:
        """The same inserts in columns."""
        if isinstance(inserts, InsertColumn):
            return inserts
        (one_ballot,) = {insert.ballot for insert in inserts}
        return InsertColumn(
            ItemColumn.of([insert.key for insert in inserts]),
            pa.array([insert.value for insert in inserts], pa.string()),
            pa.array([insert.time for insert in inserts], pa.string()),
            one_ballot,
        )

    def take(self, indices: Indices) -> InsertColumn:
        """The inserts with these indices, in that order."""
        where = pa.array(indices)
        items, values, times = self.items.take(indices), self.values.take(where), self.times.take(where)
        return InsertColumn(items, values, times, self.ballot)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> Insert: ...
    @overload
    def __getitem__(self, index: slice) -> InsertColumn: ...
    def __getitem__(self, index: int | slice) -> Insert | InsertColumn:
        if isinstance(index, slice):
            return InsertColumn(self.items[index], self.values[index], self.times[index], self.ballot)
        value, time = self.values[index].as_py(), self.times[index].as_py()
        return Insert(self.items[index], value, time, self.ballot)


@dataclass(frozen=True, slots=True)
class AcceptColumn(Sequence[Accept]):
    """Accepts; each is made when it is asked for. `forms`: see `once`."""

    items: ItemColumn
    ballots: pa.StringArray
    values: pa.StringArray
    times: pa.StringArray
    forms: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(accepts: Sequence[Accept]) -> AcceptColumn:
        """The same accepts in columns."""
        if isinstance(accepts, AcceptColumn):
            return accepts
        return AcceptColumn(
            ItemColumn.of([accept.key for accept in accepts]),
            pa.array([accept.ballot for accept in accepts], pa.string()),
            pa.array([accept.value for accept in accepts], pa.string()),
            pa.array([accept.time for accept in accepts], pa.string()),
        )

    @staticmethod
    def of_promised(inserts: InsertColumn) -> AcceptColumn:
        """What was inserted, at the ballot that was promised with it."""
        ballots = pa.repeat(inserts.ballot, len(inserts))
        return AcceptColumn(inserts.items, ballots, inserts.values, inserts.times)

    def take(self, indices: Indices) -> AcceptColumn:
        """The accepts with these indices, in that order."""
        where = pa.array(indices)
        others = (column.take(where) for column in (self.ballots, self.values, self.times))
        return AcceptColumn(self.items.take(indices), *others)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> Accept: ...
    @overload
    def __getitem__(self, index: slice) -> AcceptColumn: ...
    def __getitem__(self, index: int | slice) -> Accept | AcceptColumn:
        others = [column[index] for column in (self.ballots, self.values, self.times)]
        if isinstance(index, slice):
            return AcceptColumn(self.items[index], *others)
        return Accept(self.items[index], *(one.as_py() for one in others))


def once(column: ItemColumn | InsertColumn | AcceptColumn, form: Callable[[Any], T]) -> T:
    """What `form` makes of a column, made for the first endpoint that asks and kept for the others.

    Two threads may make it at the same time, which costs time and nothing else.
    """
    if form not in column.forms:
        column.forms[form] = form(column)
    return cast(T, column.forms[form])


# -- where events lie


def item_column(keys: KeyColumns, configs: Sequence[ShardConfig]) -> ItemColumn:
    """The item of each event, as `layout.item_key` has it.

    ValueError for an id that is empty or no UTF-8, and for a time where the registry's ids carry none.
    """
    names, first, counts, starts_us = _shard_names(tuple(configs))
    is_timed = _not_null(keys.times_us, len(keys))
    place = np.zeros(len(keys), np.intp)  # of the ids' shards: 0 for those without a time, else config + 1
    if is_timed.any() and not configs:
        raise ValueError(
            "keys have times, but the ids of this registry carry none: leave `times_us` out, and give the"
            " events' times as `at_us`"
        )
    if keys.times_us is not None:
        times_us = keys.times_us.fill_null(0).to_numpy(zero_copy_only=False)
        place = np.where(is_timed, np.searchsorted(starts_us, times_us, "right") + 1, 0)
    hashes = _shard_hashes(keys.ids)
    shards = first[place] + (hashes % counts[place]).astype(np.intp)
    return ItemColumn(names.take(pa.array(shards)), _range_keys(keys, configs))


@lru_cache(8)
def _shard_names(configs: tuple[ShardConfig, ...]) -> tuple[pa.StringArray, Any, Any, Any]:
    """The names of all shards; by place in it where those of a config begin, and how many; starts of configs.

    The first place is that of ids without a time; configs follow each other without a gap.
    """
    groups = [fixed_shards(), *(shards_of(number, config) for number, config in enumerate(configs))]
    counts = np.array([len(group) for group in groups], np.uint64)
    first = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.intp)
    starts_us = np.array([config.start_us for config in configs[1:]], np.int64)
    return pa.array([name for group in groups for name in group]), first, counts, starts_us


def _shard_hashes(ids: pa.StringArray | pa.BinaryArray) -> npt.NDArray[np.uint64]:
    each = ids.cast(pa.binary()).to_pylist()
    digests = [hashlib.blake2b(one, digest_size=SHARD_HASH_BYTES).digest() for one in each]
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _range_keys(keys: KeyColumns, configs: Sequence[ShardConfig]) -> pa.StringArray:
    try:
        ids = keys.ids.cast(pa.string())
    except pa.ArrowInvalid:  # some id is no UTF-8
        return pa.array([item_key(key, configs).s for key in keys], pa.string())
    plain = pc.binary_join_element_wise(sortable_times(keys.times_us, len(keys)), "i", ids, "")
    is_odd = pc.or_(pc.equal(pc.binary_length(ids), 0), pc.greater(pc.binary_length(plain), KEY_BYTES))
    if not pc.any(is_odd).as_py():
        return plain
    odd = [item_key(keys[int(index)], configs).s for index in np.flatnonzero(_numpy(is_odd))]
    return pc.replace_with_mask(plain, is_odd, pa.array(odd, pa.string()))


def sortable_times(times_us: pa.Int64Array | None, count: int) -> pa.StringArray:
    """As `layout.sortable_time`; empty where there is none."""
    if times_us is None:
        return pa.repeat("", count)
    numbers = times_us.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64) ^ _SIGN_BIT
    texts = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), TIME_DIGITS, "0")
    return pc.if_else(times_us.is_valid(), texts, "") if times_us.null_count else texts


def insert_column(claims: ClaimColumns, items: ItemColumn, ballot: str = FAST_BALLOT) -> InsertColumn:
    """What a fast round inserts for these claims; ValueError for a token that could not be told apart.

    `ballot`: what the inserts are to promise.
    """
    tokens = claims.tokens
    is_bad = pc.or_(pc.match_substring_regex(tokens, r"^(:|$)"), pc.match_substring(tokens, "\n"))
    if pc.any(is_bad).as_py():
        fast_value(tokens.filter(is_bad)[0].as_py())
    values = pc.binary_join_element_wise(_prefix(), tokens, "")
    at_us, times_us = claims.keys.at_us, claims.keys.times_us
    if at_us is not None and times_us is not None:  # the key has the time already
        at_us = pc.if_else(times_us.is_valid(), pa.scalar(None, pa.int64()), at_us)
    return InsertColumn(items, values, sortable_times(at_us, len(claims)), ballot)


@lru_cache(1)
def _prefix() -> str:
    return fast_value("x").removesuffix("x")


# -- what the register says of events


def too_old(keys: KeyColumns, register: Register) -> Mask:
    """Whether gc has passed each event, as `layout.is_too_old` has it."""
    if register.boundary_us is None:
        return np.zeros(len(keys), bool)
    return _below(keys.times_us, register.boundary_us, len(keys)) | (
        _below(keys.at_us, register.boundary_us, len(keys)) & ~_not_null(keys.times_us, len(keys))
    )


def beyond_horizon(keys: KeyColumns, register: Register) -> Mask:
    """Whether the time of each event is at or after the horizon (protocol C3)."""
    if register.horizon_us is None or keys.times_us is None:
        return np.zeros(len(keys), bool)
    below = _below(keys.times_us, register.horizon_us, len(keys))
    return _not_null(keys.times_us, len(keys)) & ~below


def fenced(tokens: pa.StringArray, register: Register) -> dict[int, str]:
    """By index: the epochs of tokens whose epoch is over, as `layout.fenced_epoch` has it (protocol B18)."""
    prefixes = pc.replace_substring_regex(tokens, r"^([^:]*:[^:]*).*", r"\1").dictionary_encode()
    over = {
        code: epoch
        for code, prefix in enumerate(prefixes.dictionary.to_pylist())
        if (epoch := fenced_epoch(prefix, register)) is not None
    }
    if not over:
        return {}
    return {i: over[code] for i, code in enumerate(prefixes.indices.to_pylist()) if code in over}


def first_of_each(items: ItemColumn) -> Indices:
    """By index: the first index with the same item, which is the own one unless an item is there twice."""
    codes = items.range_keys.dictionary_encode()  # the range key has the whole id, and its time
    if len(codes.dictionary) == len(items):
        return np.arange(len(items))
    _, first, inverse = np.unique(codes.indices.to_numpy(), return_index=True, return_inverse=True)
    return first[inverse]


def distinct_in_order(items: ItemColumn, first: Indices) -> Indices:
    """The first index of each item, in the order of their keys; `first` as of `first_of_each`.

    Requests are cut from that order: one that writes neighbours touches one page of the store's tree, where
    100 scattered ids touch dozens. dynoxide commits 1.3 times as many.
    """
    table = pa.table({"p": items.shards, "s": items.range_keys})
    by_key = pc.sort_indices(table, sort_keys=[("p", "ascending"), ("s", "ascending")])
    order: Indices = by_key.to_numpy().astype(np.intp)
    return cast(Indices, order[first[order] == order])


def _below(times_us: pa.Int64Array | None, bound_us: int, count: int) -> Mask:
    if times_us is None:
        return np.zeros(count, bool)
    return _numpy(pc.less(times_us, bound_us))


def _not_null(times_us: pa.Int64Array | None, count: int) -> Mask:
    return np.zeros(count, bool) if times_us is None else _numpy(times_us.is_valid())


def _numpy(mask: pa.BooleanArray) -> Mask:
    return cast(Mask, mask.fill_null(False).to_numpy(zero_copy_only=False))
