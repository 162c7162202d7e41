"""The small register of a registry: members, boundary, configs and horizon, epochs, settings' hash.

What it holds, how it is written down and how it may change; pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from photon.errors import FormatTooNew, UserError
from photon.ledger.errors import RegistryUnavailable, RetiredDatacenter

EpochState = Literal["live", "revoked", "retired"]

# 1 had no boundary; a client that does not know one would pass over it. 4 says what people have decided on
# datacenters, and is written only once they have: an older Photon would start one that was given up.
REGISTER_FORMAT = 4
FORMAT_WITHOUT_DECISIONS = 2
MOST_CONFIGS = 500  # the register is read at every check; each config makes it some 60 bytes longer
EPOCHS_KEPT = 16  # revoked ones, of each datacenter; each makes the register some 150 bytes longer


class ReshardingRefused(UserError):
    """The number of shards can't be changed; the message says why."""


@dataclass(frozen=True, slots=True)
class Members:
    """The incarnations of the stores in use, by slot; the version rises with each change (protocol B11).

    A slot that is down has a store that is just being filled: it is neither asked nor counted. A fresh one
    has come up with this very version: it counts for ids, but for the register only from the next version on,
    so that clients which still ask the old store can't miss the change (docs/adr/0017).
    """

    version: int
    incarnations: tuple[str, ...]
    down: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardConfig:
    """Into how many shards ids with a time in [start, end) go; None: without that bound (microseconds).

    Its number is its place among the register's configs, and part of every key that was ever made with it.
    """

    shards: int
    start_us: int | None = None
    end_us: int | None = None


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch of one datacenter: the id of its joined table, and its state since when (microseconds)."""

    datacenter: str
    state: EpochState
    table_id: str
    since_us: int


@dataclass(frozen=True, slots=True)
class Register:
    """The register as it was read. Horizon, boundary and members' version never go back."""

    pipeline: str
    settings_hash: str
    shard_hash: str  # the name of the hash that spreads ids over shards
    members: Members
    configs: tuple[ShardConfig, ...]
    horizon_us: int | None = None  # None: ids carry no time, so that nothing depends on it
    boundary_us: int | None = None  # gc may delete ids of earlier events; None: of none
    epochs: Mapping[str, EpochRecord] = field(default_factory=dict)
    on_hold: tuple[str, ...] = ()  # datacenters that are not to run until they are resumed
    given_up: tuple[str, ...] = ()  # datacenters that never run again
    is_refilling: bool = False  # ids of rows are being put back: until that has ended no epoch begins

    def has_boundary_of(self, other: Register) -> bool:
        """Whether the boundary is at least that of `other`."""
        if self.boundary_us is None or other.boundary_us is None:
            return other.boundary_us is None
        return self.boundary_us >= other.boundary_us


_DECISIONS = ("on_hold", "given_up", "is_refilling")


def encode_register(register: Register) -> str:
    """The register as the text that is stored."""
    stored = asdict(register)
    decisions = {name: stored.pop(name) for name in _DECISIONS}
    written: dict[str, object] = {"format": FORMAT_WITHOUT_DECISIONS}
    if any(decisions.values()):
        written = {"format": REGISTER_FORMAT, **decisions}
    return json.dumps({**written, **stored}, sort_keys=True, separators=(",", ":"))


def decode_register(text: str) -> Register:
    """The inverse of `encode_register`; FormatTooNew if a newer version wrote the text."""
    stored = json.loads(text)
    written = stored.pop("format")
    if written > REGISTER_FORMAT:
        raise FormatTooNew("the registry", written, REGISTER_FORMAT)
    stored.pop("boundaries_us", None)  # by shard: 0.1 writes it, and never with a shard in it
    lists = ("incarnations", "down", "fresh")
    members = {**stored["members"], **{name: tuple(stored["members"][name]) for name in lists}}
    return Register(
        **{
            **stored,
            "members": Members(**members),
            "configs": tuple(ShardConfig(**config) for config in stored["configs"]),
            **{name: tuple(stored.get(name, ())) for name in ("on_hold", "given_up")},
            "epochs": {epoch: EpochRecord(**record) for epoch, record in stored["epochs"].items()},
        }
    )


def with_epoch(register: Register, epoch: str, record: EpochRecord) -> Register:
    """The register with one more epoch, and without what `pruned_epochs` names.

    Adding the same one again changes nothing.
    """
    known = register.epochs.get(epoch)
    if known is not None and (known.datacenter, known.table_id) != (record.datacenter, record.table_id):
        raise ValueError(
            f"epoch {epoch} is already that of datacenter {known.datacenter} with table {known.table_id};"
            f" it can't be that of {record.datacenter} with table {record.table_id} too"
        )
    if known is not None:
        return register
    if register.is_refilling:
        raise RegistryUnavailable(
            f"the ids of all rows are being put back into the registry of {register.pipeline}: "
            "no epoch begins before that has ended"
        )
    if record.datacenter in register.given_up:
        raise RetiredDatacenter(f"datacenter {record.datacenter} is retired: it begins no epoch any more")
    epochs = {**register.epochs, epoch: record}
    pruned = pruned_epochs(epochs, record.datacenter)
    return replace(register, epochs={name: one for name, one in epochs.items() if name not in pruned})


def pruned_epochs(epochs: Mapping[str, EpochRecord], datacenter: str) -> list[str]:
    """The oldest revoked epochs of a datacenter beyond `EPOCHS_KEPT`: nothing reads their records any more.

    An epoch of a datacenter that the register knows, and that has no record, is over (docs/adr/0024).
    """
    revoked = [name for name, e in epochs.items() if (e.datacenter, e.state) == (datacenter, "revoked")]
    return sorted(revoked, key=lambda name: (epochs[name].since_us, name))[:-EPOCHS_KEPT]


def live_epochs(epochs: Mapping[str, EpochRecord]) -> list[str]:
    """Those of all datacenters that are not over, sorted."""
    return sorted(name for name, record in epochs.items() if record.state == "live")


def retired_datacenters(epochs: Mapping[str, EpochRecord]) -> frozenset[str]:
    """Datacenters that were given up as lost: no row of theirs counts, whatever its epoch (protocol E2)."""
    return frozenset(e.datacenter for e in epochs.values() if e.state == "retired")


def with_epoch_state(register: Register, epoch: str, state: EpochState, now_us: int) -> Register:
    """The register with an epoch revoked or retired. It never goes back from there.

    RegistryUnavailable if the register lacks the epoch: the caller read another one, and decides anew.
    """
    known = register.epochs.get(epoch)
    if known is None:
        raise _put_back(register, f"epoch {epoch}")
    order: tuple[EpochState, ...] = ("live", "revoked", "retired")
    if order.index(state) <= order.index(known.state):
        return register
    changed = replace(known, state=state, since_us=now_us)
    return replace(register, epochs={**register.epochs, epoch: changed})


def _put_back(register: Register, lacks: str) -> RegistryUnavailable:
    """An entry that was just read is gone; the next attempt decides by the register that is there now."""
    return RegistryUnavailable(
        f"the registry of {register.pipeline} knew {lacks} a moment ago, and does not any more: a copy of it "
        "was put back"
    )


def with_hold(register: Register, datacenter: str, is_held: bool) -> Register:
    """The register with a datacenter on hold, or resumed. RetiredDatacenter: it never runs again."""
    if datacenter in retired_datacenters(register.epochs).union(register.given_up):
        raise RetiredDatacenter(
            f"datacenter {datacenter} is retired: it never runs again, so it is neither put on hold nor "
            "resumed. Take it out of the pipeline file; a datacenter in its place gets a new name"
        )
    others = [name for name in register.on_hold if name != datacenter]
    return replace(register, on_hold=tuple(sorted([*others, datacenter] if is_held else others)))


def with_datacenter_given_up(
    register: Register, datacenter: str, is_lake_gone: bool, now_us: int
) -> Register:
    """The register with a datacenter that never runs again; if its lake is gone, its rows don't count.

    RegistryUnavailable if the register lacks the datacenter: then nothing would keep its tokens from winning.
    """
    if all(record.datacenter != datacenter for record in register.epochs.values()):
        raise _put_back(register, f"datacenter {datacenter}")
    state: EpochState = "retired" if is_lake_gone else "revoked"
    for name, record in register.epochs.items():
        if record.datacenter == datacenter:
            register = with_epoch_state(register, name, state, now_us)
    on_hold = tuple(name for name in register.on_hold if name != datacenter)
    return replace(register, on_hold=on_hold, given_up=tuple(sorted({*register.given_up, datacenter})))


def with_refill_begun(register: Register, epochs: Mapping[str, Mapping[str, str]], now_us: int) -> Register:
    """The register in which every epoch is over, and none begins until `with_refill_ended` (protocol B19).

    `epochs`: by datacenter, those that its table knows, each with the id of that table. An epoch that the
    register does not know is noted as over: so no token of its datacenter wins any more (B18).
    """
    known = dict(register.epochs)
    for datacenter, tables in epochs.items():
        for name, table_id in tables.items():
            known.setdefault(name, EpochRecord(datacenter, "revoked", table_id, now_us))
    over = {
        name: replace(record, state="revoked", since_us=now_us) if record.state == "live" else record
        for name, record in known.items()
    }
    for datacenter in epochs:
        for name in pruned_epochs(over, datacenter):
            del over[name]
    return replace(register, epochs=over, is_refilling=True)


def with_refill_ended(register: Register) -> Register:
    """The register in which epochs may begin again."""
    return replace(register, is_refilling=False)


def with_slot_down(register: Register, slot: int, incarnation: str) -> Register:
    """The register with a slot out of use, while a new store is filled in its place."""
    old = register.members
    assert not old.fresh, "one repair ends before the next one begins"
    incarnations = tuple(incarnation if s == slot else i for s, i in enumerate(old.incarnations))
    down = tuple(sorted({*old.down, slot}))
    return replace(register, members=Members(old.version + 1, incarnations, down))


def with_slot_up(register: Register, slot: int) -> Register:
    """The register with a slot in use again, as a fresh one."""
    old = register.members
    down = tuple(s for s in old.down if s != slot)
    return replace(register, members=Members(old.version + 1, old.incarnations, down, fresh=(slot,)))


def without_fresh_slots(register: Register) -> Register:
    """The register without fresh slots: all that are up count for the register too."""
    old = register.members
    if not old.fresh:
        return register
    return replace(register, members=Members(old.version + 1, old.incarnations, old.down))


def with_horizon(register: Register, now_us: int, step_us: int) -> Register:
    """The register with its horizon a step or two ahead of now; never moved back (protocol C3)."""
    if register.horizon_us is None or now_us + step_us <= register.horizon_us:
        return register
    return replace(register, horizon_us=now_us + 2 * step_us)


def with_boundary(register: Register, boundary_us: int) -> Register:
    """The register with its boundary at least there; never moved back (protocol C2)."""
    moved = replace(register, boundary_us=boundary_us)
    return register if register.has_boundary_of(moved) else moved


def with_shards(register: Register, shards: int) -> Register:
    """The register with this number of shards for events from the horizon on (protocol C3).

    Nothing below the horizon changes. A config that begins at the horizon has no id yet, since no commit
    passes it: another call may replace it. ReshardingRefused where ids carry no time, or at the limit.
    """
    horizon_us = register.horizon_us
    if horizon_us is None:
        raise ReshardingRefused(
            f"the ids of {register.pipeline} carry no time, so that none would be found again under another"
            " number of shards: theirs is fixed"
        )
    *earlier, last = (c for c in register.configs if c.start_us is None or c.start_us < horizon_us)
    if last.shards == shards:
        return replace(register, configs=(*earlier, replace(last, end_us=None)))
    if len(earlier) + 2 > MOST_CONFIGS:
        raise ReshardingRefused(
            f"the registry of {register.pipeline} has had {len(earlier) + 1} numbers of shards, of at most"
            f" {MOST_CONFIGS}: leave it as it is"
        )
    begun = replace(last, end_us=horizon_us)
    return replace(register, configs=(*earlier, begun, ShardConfig(shards, start_us=horizon_us)))
