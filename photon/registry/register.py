"""The register: the one item beside the ledgers that says which there are, and who may write to them.

What it holds, how it is written down and how it may change; pure. It is changed by prepare and accept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache

from photon.process.errors import FormatTooNew
from photon.registry.entry import NO_BOUNDARY_US, Epoch, LedgerId
from photon.registry.errors import RegistryUnavailable, RetiredDatacenter

REGISTER_FORMAT = 3  # of a register with `taken`; with `unmatched_owner` alone 2, of others 1
ENTRY_VERSION = 1  # writers write this one: no more than every reader of the register knows
MOST_LEDGERS = 64  # in a generation: a batch appends to each that its ids meet
PARENTS_KNOWN = 16 * MOST_LEDGERS  # ledgers whose parents need not be computed again: all that are live


@dataclass(frozen=True, slots=True)
class Members:
    """The incarnations of the stores in use, by slot; the version rises with each change (protocol B11).

    A slot that is `down` has a store that is just being filled: it is neither asked nor counted. A `fresh`
    one has come up with this very version: it counts for entries, and for the register from the next on.
    """

    version: int
    incarnations: tuple[str, ...]
    down: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """Ledgers that share the range of hashes: how many, whose homes, and the boundary at its birth.

    `homes`: by ledger the datacenter that its ids meet first, or an empty text. `is_dropped`: its items may
    be gone.
    """

    ledgers: int
    homes: tuple[str, ...] = ()
    boundary_us: int = NO_BOUNDARY_US
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Register:
    """The register as it was read. Numbers in it never go back.

    `incarnation`: of the ledgers; a refill makes a new one, `filling` while it goes on (else 0). `epochs`: by
    datacenter the highest number of an epoch that was handed out. `tables`: by datacenter the id of its
    joined table. `given_up`: datacenters that never run again; `lakes_gone`: of these, the ones whose rows
    count no more. `unmatched_owner`: the one datacenter that writes unmatched primaries (protocol U1).
    `taken`: by datacenter the list of rows that others took and a person has acknowledged (protocol E13);
    `acknowledgements`: how often one was.
    """

    pipeline: str
    settings_hash: str
    members: Members
    incarnation: int = 1
    generations: tuple[Generation, ...] = ()
    boundary_us: int = NO_BOUNDARY_US
    epochs: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    on_hold: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    lakes_gone: tuple[str, ...] = ()
    is_refilling: bool = False
    filling: int = 0
    entry_version: int = ENTRY_VERSION
    unmatched_owner: str = ""
    taken: Mapping[str, str] = field(default_factory=dict)
    acknowledgements: int = 0

    @property
    def live_generations(self) -> list[int]:
        """The numbers of generations that are not dropped, oldest first."""
        return [number for number, one in enumerate(self.generations) if not one.is_dropped]

    def ledgers(self, generation: int) -> list[LedgerId]:
        """The ledgers of a generation."""
        return [LedgerId(generation, number) for number in range(self.generations[generation].ledgers)]

    def parents(self, ledger: LedgerId) -> tuple[LedgerId, ...]:
        """The ledgers of the generation before whose range meets this one's."""
        if ledger.generation == 0:
            return ()
        before, own = (self.generations[ledger.generation - back].ledgers for back in (1, 0))
        return _parents(ledger, before, own)


@lru_cache(PARENTS_KNOWN)
def _parents(ledger: LedgerId, before: int, own: int) -> tuple[LedgerId, ...]:
    """See `Register.parents`; `before` and `own`: how many ledgers the two generations have."""
    first, behind = ledger.number * before // own, -((ledger.number + 1) * -before // own)
    return tuple(LedgerId(ledger.generation - 1, number) for number in range(first, behind))


def encode_register(register: Register) -> bytes:
    """The register as it is stored; versions that know no `unmatched_owner`, or `taken`, read one without."""
    stored = {"format": REGISTER_FORMAT, **asdict(register)}
    if not register.taken:
        del stored["taken"], stored["acknowledgements"]
        stored["format"] = 2
        if not register.unmatched_owner:
            stored["format"] = 1
            del stored["unmatched_owner"]
    return json.dumps(stored, sort_keys=True).encode()


def decode_register(value: bytes) -> Register:
    """The inverse of `encode_register`; FormatTooNew if a newer version wrote it."""
    stored = json.loads(value)
    written = stored.pop("format")
    if written > REGISTER_FORMAT:
        raise FormatTooNew("the registry's register", written, REGISTER_FORMAT)
    kept = stored["members"]
    lists = {name: tuple(kept[name]) for name in ("incarnations", "down", "fresh")}
    generations = (Generation(**{**one, "homes": tuple(one["homes"])}) for one in stored["generations"])
    people = {name: tuple(stored[name]) for name in ("on_hold", "given_up", "lakes_gone")}
    members = Members(**{**kept, **lists})
    return Register(**{**stored, **people, "members": members, "generations": tuple(generations)})


def with_epoch(register: Register, datacenter: str, known: int = 0) -> tuple[Register, Epoch]:
    """The register with one more epoch of a datacenter, above all `known` ones (L4); and that epoch.

    RegistryUnavailable while a refill goes on; RetiredDatacenter.
    """
    if register.is_refilling:
        raise RegistryUnavailable(
            f"the ids of all rows are being put back into the registry of {register.pipeline}:"
            " no epoch begins before that has ended"
        )
    if datacenter in register.given_up:
        raise RetiredDatacenter(f"datacenter {datacenter} is retired: it begins no epoch any more")
    number = max(register.epochs.get(datacenter, 0), known) + 1
    return replace(register, epochs={**register.epochs, datacenter: number}), Epoch(datacenter, number)


def with_boundary(register: Register, boundary_us: int) -> Register:
    """The register with its boundary at least there (L5)."""
    return replace(register, boundary_us=max(register.boundary_us, boundary_us))


def with_generation(register: Register, after: int, ledgers: int, homes: tuple[str, ...] = ()) -> Register:
    """The register with one more generation, if `after` is still the newest (L7); else as it is.

    Whoever calls it has seen all ledgers of `after` open. ValueError for a number of ledgers that can't be.
    """
    if not 1 <= ledgers <= MOST_LEDGERS:
        raise ValueError(f"{ledgers} ledgers; expected 1 to {MOST_LEDGERS}")
    if after != len(register.generations) - 1:
        return register
    born = Generation(ledgers, homes, register.boundary_us)
    return replace(register, generations=(*register.generations, born))


def with_dropped(register: Register, generation: int) -> Register:
    """The register without its oldest generation; as it is, if that is another one or the only one (L12)."""
    live = register.live_generations
    if len(live) < 2 or live[0] != generation:
        return register
    generations = list(register.generations)
    generations[generation] = replace(generations[generation], is_dropped=True)
    return replace(register, generations=tuple(generations))


def with_hold(register: Register, datacenter: str, is_held: bool) -> Register:
    """The register with a datacenter on hold, or resumed. RetiredDatacenter: it never runs again."""
    if datacenter in register.given_up:
        raise RetiredDatacenter(
            f"datacenter {datacenter} is retired: it never runs again, so it is neither put on hold nor "
            "resumed. A datacenter in its place gets a new name"
        )
    others = [name for name in register.on_hold if name != datacenter]
    return replace(register, on_hold=tuple(sorted([*others, datacenter] if is_held else others)))


def with_given_up(register: Register, datacenter: str, is_lake_gone: bool) -> Register:
    """The register with a datacenter that never runs again; if its lake is gone, its rows count no more.

    Nobody owns the unmatched primaries that it wrote: the next run names another owner.
    """
    given_up = {*register.given_up, datacenter}
    gone = {*register.lakes_gone, datacenter} if is_lake_gone else register.lakes_gone
    on_hold = tuple(name for name in register.on_hold if name != datacenter)
    owner = register.unmatched_owner
    return replace(
        register,
        on_hold=on_hold,
        given_up=tuple(sorted(given_up)),
        lakes_gone=tuple(sorted(gone)),
        unmatched_owner="" if owner == datacenter else owner,
    )


def with_unmatched_owner(register: Register, datacenters: Collection[str]) -> Register:
    """The register with an owner of unmatched primaries, where it has none (protocol U1).

    It is the first by name of these datacenters that has begun an epoch and is not given up.
    """
    if register.unmatched_owner:
        return register
    able = sorted({*datacenters} & register.epochs.keys() - {*register.given_up})
    return replace(register, unmatched_owner=able[0]) if able else register


def with_taken(register: Register, datacenter: str, digest: str, before: str) -> Register:
    """The register with a datacenter's list of acknowledged rows, if it still names the one of `before`."""
    if register.taken.get(datacenter, "") != before:
        return register
    taken = {**register.taken, datacenter: digest}
    return replace(register, taken=taken, acknowledgements=register.acknowledgements + 1)


def with_list_again(register: Register, datacenter: str, digest: str) -> Register:
    """The register with the list that lakes have of a datacenter, as after a refill."""
    return with_taken(register, datacenter, digest, register.taken.get(datacenter, ""))


# -- members (protocol B11)


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
