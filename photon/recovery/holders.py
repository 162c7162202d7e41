"""What other datacenters hold, and what becomes of it when they are silent (protocol A16, E1, E6).

An event that another one registered is joined for good once its epoch has published the batch. Before that it
is held. What an epoch that is over, or silent, has registered without a row is released here, where its lake
can be read; else it stays held until that datacenter is back, or a person retires it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from photon.clock import MICROSECONDS, Clock, microseconds
from photon.faults import fault_point
from photon.join.messages import HeldElsewhere
from photon.pipeline.file import Pipeline
from photon.recovery.distant_lakes import DistantLakes
from photon.registry.consensus.layout import is_over
from photon.registry.consensus.marks import Mark
from photon.registry.consensus.register import Register, retired_datacenters
from photon.registry.interface import Claim, Unknown
from photon.registry.quorum.proposer import QuorumRegistry
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import CommitConflict, OutputTable, app_id
from photon.tokens import Occurrence, Token

log = logging.getLogger(__name__)

LOOK_US = 2 * MICROSECONDS  # between two looks at the marks, while something is held
HOLD_US = 5 * MICROSECONDS  # between two looks whether people have stopped this datacenter, without a batch
# Of a pause in which nobody looked so much counts as silence: this process may have been stopped itself.
SHARE_OF_A_PAUSE = 2

# At work; nothing heard of it for long; its epoch is over; given up, and its rows don't count.
Standing = Literal["at work", "silent", "over", "given up"]
Epoch = tuple[str, str]  # a datacenter, and its epoch


@dataclass
class SilenceWatch:
    """For how long each mark has stood still, as far as this process has looked."""

    silent_after_us: int
    _looked_us: int | None = None
    _seen: dict[str, Mark] = field(default_factory=dict)
    _silence_us: dict[str, int] = field(default_factory=dict)

    def look(self, marks: Mapping[str, Mark], now_us: int) -> None:
        """Take note of the marks as they are now."""
        pause_us = 0 if self._looked_us is None else now_us - self._looked_us
        counted_us = min(pause_us, self.silent_after_us // SHARE_OF_A_PAUSE)
        for epoch, mark in marks.items():
            is_still = self._seen.get(epoch) == mark
            self._silence_us[epoch] = self._silence_us[epoch] + counted_us if is_still else 0
            self._seen[epoch] = mark
        self._looked_us = now_us

    def is_silent(self, epoch: str) -> bool:
        """Whether its mark has stood still for long enough."""
        return self._silence_us.get(epoch, 0) >= self.silent_after_us


def standing_of(epoch: Epoch, register: Register, is_silent: bool) -> Standing:
    """How it stands with an epoch that holds something."""
    datacenter, name = epoch
    if datacenter in retired_datacenters(register.epochs):
        return "given up"
    if is_over(datacenter, name, register):
        return "over"
    return "silent" if is_silent else "at work"


@dataclass
class Settled:
    """What became of held records: their event has its row elsewhere, or its id is free again."""

    ended: set[Occurrence] = field(default_factory=set)
    released: set[Occurrence] = field(default_factory=set)


class Holders:
    """The epochs of other datacenters, as one dispatcher sees them."""

    def __init__(
        self,
        pipeline: Pipeline,
        datacenter: str,
        registry: QuorumRegistry,
        clock: Clock,
        asks_aside: bool = True,
        heard: Callable[[Mapping[str, Mark]], None] = lambda marks: None,
    ) -> None:
        """`heard`: is told of all marks that are read, and that the registry has answered."""
        self._heard = heard
        self._pipeline = pipeline
        self._lakes = DistantLakes(pipeline.recovery.lake_timeout, asks_aside)
        self._datacenter = datacenter
        self._registry = registry
        self._clock = clock
        self._watch = SilenceWatch(microseconds(pipeline.recovery.silent_after))
        self._register: Register | None = None
        self._tended_us: int | None = None
        self._asked_us = clock.elapsed_us()  # what people have decided
        self._held: dict[Epoch, Standing | None] = {}  # what was held lately, as it stood at the last look
        self._fenced: set[Epoch] = set()
        self.published: Mapping[str, int] = {}  # by epoch: the last batch, whose tokens have rows or are free
        self.given_up: frozenset[str] = frozenset()  # datacenters that never run again
        self.absent: frozenset[str] = frozenset()  # these, and those that are on hold
        self.stuck: dict[Epoch, str] = {}  # why nothing can be done for what they hold

    def look(self) -> Register | None:
        """Read the register and all marks: once before a batch, so that all it finds is newer.

        None where nobody else can hold anything. RegistryUnavailable.
        """
        if len(self._pipeline.datacenters) == 1 and not self._held:
            return None
        register = self._read_decisions()
        marks = self._read_marks(register)
        self._watch.look(marks, self._clock.elapsed_us())
        self.published = {name: mark.batch for name, mark in marks.items()}
        self._register = register
        return register

    def notice_hold(self) -> None:
        """Ask what people have decided, now and then: without a batch nobody looks. RegistryUnavailable."""
        if not self.is_stopped and self._clock.elapsed_us() - self._asked_us >= HOLD_US:
            self._read_marks(self._read_decisions())

    def _read_marks(self, register: Register) -> Mapping[str, Mark]:
        others = {name for name, e in register.epochs.items() if e.datacenter != self._datacenter}
        marks = self._registry.marks.read(sorted(others | {name for _, name in self._held}))
        self._heard(marks)
        return marks

    def _read_decisions(self) -> Register:
        self._asked_us = self._clock.elapsed_us()
        register = self._registry.register.read()
        self.given_up = frozenset(register.given_up)
        self.absent = self.given_up | frozenset(register.on_hold)
        return register

    def settle(self, held: Iterable[HeldElsewhere]) -> Settled:
        """Decide on records whose holders are over or given up; the others wait on.

        RegistryUnavailable.
        """
        settled, by_epoch = Settled(), defaultdict[Epoch, list[HeldElsewhere]](list)
        for record in held:
            plan = Token.parse(record.token).plan
            by_epoch[plan.datacenter, plan.epoch].append(record)
        for epoch, records in by_epoch.items():
            standing = self._stands(epoch, self._register or self._registry.register.read())
            self._held[epoch] = standing
            if standing == "given up":
                self._release(records, settled)
            elif standing == "over":
                self._settle_by_table(epoch, records, settled)
        return settled

    def tend(self, count_held: int) -> bool:
        """See to silent holders; whether held records are worth another look now. RegistryUnavailable."""
        if not count_held:
            self._held.clear()
            self.stuck.clear()
        now_us = self._clock.elapsed_us()
        if not self._held or (self._tended_us is not None and now_us - self._tended_us < LOOK_US):
            return False
        self._tended_us = now_us
        register, before = self.look(), dict(self._held)
        assert register is not None, "something is held"
        for epoch in before:
            self._held[epoch] = standing = self._stands(epoch, register)
            if standing == "silent" and self._fence(epoch, register):
                self._registry.register.revoke_epoch(epoch[1], self._clock.now_us())
                fault_point("recover.after_revoke")
                log.warning(
                    "datacenter %s is silent: epoch %s is over, what it holds without a row is joined "
                    "by the others",
                    *epoch,
                )
                self._held[epoch] = "over"
        return any(stood is not None and self._held[epoch] != stood for epoch, stood in before.items())

    @property
    def out_of_reach(self) -> dict[str, str]:
        """By datacenter: why what it holds can't be released here."""
        return {datacenter: reason for (datacenter, _), reason in self.stuck.items()}

    @property
    def wait_for_others(self) -> bool:
        """Whether all that is held can be settled by others alone."""
        return bool(self._held) and self._held.keys() == self.stuck.keys()

    @property
    def is_stopped(self) -> bool:
        """Whether a person has put this very datacenter on hold."""
        return self._datacenter in self.absent

    def is_alone(self, epoch: str) -> bool:
        """Whether this datacenter has no other live epoch, and was not given up. RegistryUnavailable."""
        register = self._registry.register.read()
        if self._datacenter in register.given_up:
            return False
        epochs = register.epochs
        others = [e for name, e in epochs.items() if e.datacenter == self._datacenter and name != epoch]
        return all(other.state == "revoked" for other in others)

    # -- one epoch

    def _stands(self, epoch: Epoch, register: Register) -> Standing:
        return standing_of(epoch, register, self._watch.is_silent(epoch[1]))

    def _fence(self, epoch: Epoch, register: Register) -> OutputTable | None:
        """Make sure that the epoch commits no more (E1): its table, or None if that can't be reached."""
        datacenter, name = epoch
        try:
            table = self._lakes.ask(datacenter, partial(self._fenced_table, epoch, register))
            if epoch not in self._fenced:
                fault_point("recover.after_fence")
        except CommitConflict as error:  # another survivor does the same, or the epoch has just committed
            log.info("epoch %s of datacenter %s is fenced at the next look: %s", name, datacenter, error)
            return None
        except LakeUnavailable as error:
            if epoch not in self.stuck:
                log.warning(
                    "what datacenter %s holds waits, for its lake can't be reached: %s", datacenter, error
                )
            self.stuck[epoch] = str(error)
            return None
        self._fenced.add(epoch)
        self.stuck.pop(epoch, None)
        return table

    def _fenced_table(self, epoch: Epoch, register: Register) -> OutputTable:
        """The epoch's table, to which it commits no more. CommitConflict, LakeUnavailable."""
        table = self._table_of(epoch[0], register)
        if epoch not in self._fenced:
            table.fence(app_id(*epoch))
        return table

    def _table_of(self, datacenter: str, register: Register) -> OutputTable:
        """The table that the registry knows of this datacenter. LakeUnavailable."""
        place = self._pipeline.datacenters.get(datacenter)
        if place is None:
            raise LakeUnavailable(f"the pipeline file has no datacenter {datacenter}")
        table = OutputTable(place.lake, "joined_events")
        if not table.exists():
            raise LakeUnavailable(f"there is no table {table.folder}")
        known = {e.table_id for e in register.epochs.values() if e.datacenter == datacenter}
        if table.table_id() not in known:
            raise LakeUnavailable(f"the table {table.folder} is not the one that the registry knows")
        return table

    def _settle_by_table(self, epoch: Epoch, held: Sequence[HeldElsewhere], settled: Settled) -> None:
        """What has a row at a snapshot with the fence is joined, and all else is released (E1)."""
        assert self._register is not None, "a batch begins with a look"
        table = self._fence(epoch, self._register)
        if table is None:
            return
        try:
            tokens = {Token.parse(record.token) for record in held}
            status = self._lakes.ask(epoch[0], partial(table.row_status_of, tokens))
        except LakeUnavailable as error:
            self.stuck[epoch] = str(error)
            return
        for record in held:
            if status[Token.parse(record.token)] == "row":
                settled.ended.add(record.occurrence)
        without = [record for record in held if status[Token.parse(record.token)] == "no row"]
        self._release(without, settled)

    def _release(self, held: Sequence[HeldElsewhere], settled: Settled) -> None:
        if not held:
            return
        outcomes = self._registry.release([Claim(record.key, record.token) for record in held])
        fault_point("recover.after_release")
        for record, outcome in zip(held, outcomes, strict=True):
            if not isinstance(outcome, Unknown):
                settled.released.add(record.occurrence)
