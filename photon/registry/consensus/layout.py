"""How the registry is laid out: keys of items from keys of events, and what values look like. Pure.

An item has `p` (shard), `s` (key in the shard), `t` (value), `b` (promised ballot), `a` (ballot at
which the value was accepted; absent: the fast round), `e` (time of the event, where the key has none:
for gc; empty if unknown). Values are texts with a prefix: `T:` + token, `C:` + datacenter (cleared),
`X:` + released tokens (tombstone). A token that came after a tombstone is followed by the released ones,
each after a newline: so that they still never win (B5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from photon.pipeline.event_key import EventKey
from photon.registry.consensus.register import Register, ShardConfig
from photon.registry.interface import Claim, Holder

SHARD_HASH = "blake2b-64"  # recorded with the settings: another hash would be another registry
SHARD_HASH_BYTES = 8
FIXED_SHARDS = 1_024  # where ids carry no time, resharding could not find an id again (C3)
KEY_BYTES = 200  # a longer key is hashed; DynamoDB refuses range keys above 1,024 bytes (protocol B7)
RELEASED_TOKENS = 1_000  # remembered for one id; more would near DynamoDB's 400 KB an item

TIME_DIGITS = 20
_TIME_OFFSET_US = 2**63  # makes every 64-bit time, also before 1970, a number of up to 20 digits
_SEPARATOR = "\n"
_FIXED = "fixed"  # in the place of a config's number


class ItemKey(NamedTuple):
    """Where an item lies: shard and key in the shard. A tuple, because each is hashed many times."""

    p: str
    s: str


REGISTER_KEY = ItemKey("register", "register")
MARKS_SHARD = "marks"  # one item an epoch (photon.registry.consensus.marks)

ABOVE_CLEARED = "D"  # sorts after every cleared value and before all others


@dataclass(frozen=True, slots=True)
class Held:
    """The token that holds the id, and those that were released before it."""

    token: str
    released: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cleared:
    """Joined, and in the output of this datacenter; final."""

    datacenter: str


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Nobody holds the id, and these tokens never will (protocol B5)."""

    released: tuple[str, ...]


Value = Held | Cleared | Tombstone


def item_key(key: EventKey, configs: Sequence[ShardConfig]) -> ItemKey:
    """The item of an event: a function of its id and, where ids carry their time, of that time alone.

    `configs` are the register's. ValueError for an empty id, which no log record may have.
    """
    if not key.id:
        raise ValueError("an event has an empty id; records without an id are dead letters, not events")
    shard_hash = int.from_bytes(hashlib.blake2b(_bytes(key.id), digest_size=SHARD_HASH_BYTES).digest(), "big")
    if key.time_us is None:
        return ItemKey(_shard(_FIXED, shard_hash % FIXED_SHARDS), _range_key("", key.id))
    number, config = _config_of(key.time_us, configs)
    range_key = _range_key(sortable_time(key.time_us), key.id)
    return ItemKey(_shard(str(number), shard_hash % config.shards), range_key)


def sortable_time(time_us: int) -> str:
    """20 digits that sort as the times do, also before 1970; ValueError beyond 64 bits."""
    if not -_TIME_OFFSET_US <= time_us < _TIME_OFFSET_US:
        raise ValueError(f"{time_us} us is not a time of 64 bits")
    return f"{time_us + _TIME_OFFSET_US:0{TIME_DIGITS}d}"


def time_of_key(item: ItemKey) -> int:
    """The time in the key of an item, in microseconds; only of ids that carry theirs."""
    assert not is_fixed(item.p), f"{item} has no time in its key"
    return int(item.s[:TIME_DIGITS]) - _TIME_OFFSET_US


def key_of_item(item: ItemKey, time: str) -> EventKey:
    """A key with which an item that a scan has found keeps its time; its id may be a hash."""
    if not is_fixed(item.p):
        return EventKey(item.s, time_of_key(item))
    return EventKey(item.s, None, int(time) - _TIME_OFFSET_US if time else None)


def stored_time(claim: Claim) -> str:
    """The time that an item keeps: empty where its key has it already, or nobody knows it."""
    if claim.key.time_us is not None or claim.key.at_us is None:
        return ""
    return sortable_time(claim.key.at_us)


def _range_key(time: str, event_id: str) -> str:
    # `i` and `h` keep an id apart from another one that happens to look like its hash.
    plain = f"{time}i{event_id}"
    encoded = _bytes(event_id)
    is_utf8 = encoded == event_id.encode("utf-8", "replace")
    if len(time) + 1 + len(encoded) <= KEY_BYTES and is_utf8:
        return plain
    return f"{time}h{hashlib.blake2b(encoded, digest_size=32).hexdigest()}"


def _bytes(text: str) -> bytes:
    # JSON may spell half a surrogate pair. That is no UTF-8, but an id like any other.
    return text.encode("utf-8", "surrogatepass")


def _config_of(time_us: int, configs: Sequence[ShardConfig]) -> tuple[int, ShardConfig]:
    for number, config in enumerate(configs):
        begun = config.start_us is None or config.start_us <= time_us
        if begun and (config.end_us is None or time_us < config.end_us):
            return number, config
    raise AssertionError(f"no shard config holds the time {time_us} us; the register's configs leave no gap")


def is_too_old(key: EventKey, register: Register) -> bool:
    """Whether gc has passed the event (protocol C1); never, if nobody knows when it was."""
    boundary_us, event_us = register.boundary_us, key.event_us
    return boundary_us is not None and event_us is not None and event_us < boundary_us


def is_below_boundary(item: ItemKey, time: str, register: Register) -> bool:
    """Whether gc has passed the event of an item with this stored time."""
    if register.boundary_us is None or item.p in (REGISTER_KEY.p, MARKS_SHARD):
        return False
    known = time if is_fixed(item.p) else item.s
    return known != "" and known < sortable_time(register.boundary_us)


def is_fixed(shard: str) -> bool:
    """Whether a shard holds ids that carry no time: their items are in the order of the ids."""
    return shard.startswith(_FIXED)


def shards_by_config(register: Register) -> list[list[str]]:
    """All shards, those of each config together; last those of ids without a time."""
    timed = (shards_of(number, config) for number, config in enumerate(register.configs))
    return [*timed, fixed_shards()]


def fixed_shards() -> list[str]:
    """The names of the shards of ids that carry no time."""
    return [_shard(_FIXED, number) for number in range(FIXED_SHARDS)]


def shards_of(number: int, config: ShardConfig) -> list[str]:
    """The names of the shards of the config with this number."""
    return [_shard(str(number), shard) for shard in range(config.shards)]


def shards_below_boundary(register: Register) -> list[str]:
    """Every shard that may have an item below the boundary; those of ids without a time come last."""
    boundary_us = register.boundary_us
    if boundary_us is None:
        return []
    *timed, fixed = shards_by_config(register)
    configs = zip(register.configs, timed, strict=True)
    begun = [shards for config, shards in configs if config.start_us is None or config.start_us < boundary_us]
    return [shard for shards in (*begun, fixed) for shard in shards]


def _shard(config: str, number: int) -> str:
    return f"{config}-{number:05d}"


def encode_value(value: Value) -> str:
    """The text that is stored for a value."""
    match value:
        case Held(token, released):
            return "T:" + _SEPARATOR.join((token, *released))
        case Cleared(datacenter):
            return "C:" + datacenter
        case Tombstone(released):
            return "X:" + _SEPARATOR.join(released)


def decode_value(text: str) -> Value:
    """The inverse of `encode_value`; ValueError if a registry does not store such a text."""
    kind, rest = text[:2], text[2:]
    if kind == "C:":
        return Cleared(rest)
    if kind == "T:" and _SEPARATOR not in rest:  # most of them
        return Held(rest)
    tokens = rest.split(_SEPARATOR)
    if kind == "T:":
        return Held(tokens[0], tuple(tokens[1:]))
    if kind == "X:":
        return Tombstone(tuple(tokens))
    raise ValueError(f"{text!r} is no registry value; expected T:token, C:datacenter or X:token")


def fast_value(token: str) -> str:
    """What the fast round inserts for a token. ValueError for a token that could not be told apart."""
    if not datacenter_of(token) or _SEPARATOR in token:
        raise ValueError(
            f"{token!r} is not a token; expected datacenter:epoch:batch#plan id:file number:offset"
        )
    return encode_value(Held(token))


def is_cleared(text: str) -> bool:
    """Whether a stored value is a cleared one: a single copy of it decides (protocol B6)."""
    return text.startswith("C:")


def datacenter_of(token: str) -> str:
    """The datacenter that a token names."""
    return token.partition(":")[0]


def fenced_epoch(token: str, register: Register) -> str | None:
    """The token's epoch, if it is over (protocol B18).

    It is over too if it has no record and its datacenter has others: then its record was pruned, or it began
    after this register was read. A datacenter that has begun an epoch never goes from the register.
    """
    datacenter, _, rest = token.partition(":")
    epoch = rest.partition(":")[0]
    return epoch if is_over(datacenter, epoch, register) else None


def is_over(datacenter: str, epoch: str, register: Register) -> bool:
    """Whether an epoch of this datacenter registers no more."""
    record = register.epochs.get(epoch)
    if record is not None:
        return record.state != "live"
    return any(other.datacenter == datacenter for other in register.epochs.values())


def holder_of(value: Held | Cleared) -> Holder:
    """Who holds an id, from its value."""
    if isinstance(value, Cleared):
        return Holder(value.datacenter, None)
    return Holder(datacenter_of(value.token), value.token)


def with_released(released: Sequence[str], token: str) -> tuple[str, ...]:
    """Released tokens and one more, the oldest forgotten beyond `RELEASED_TOKENS`."""
    return (*(other for other in released if other != token), token)[-RELEASED_TOKENS:]
