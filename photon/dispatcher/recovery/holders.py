"""Holds of other datacenters, and what becomes of them when they are silent (protocol A16, A25, E1, E6, L4).

What another one has claimed is a join once it has closed it. Before that it is held. Where its lake can be
read, the batch of a silent epoch is passed over, and an epoch that is over is fenced and closed for ever:
what has no row is free then. Else it stays held until that datacenter is back, or a person retires it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from photon.dispatcher.recovery.passing import make_final, pass_over
from photon.dispatcher.recovery.registry_watch import RegistryWatch
from photon.dispatcher.recovery.rows_of_plans import RowsOfPlans, rowless_unless_taken
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, microseconds
from photon.process.faults import fault_point
from photon.registry.closing import Closing, Rowless
from photon.registry.entry import Claimant, Epoch, Hashes, Mask
from photon.registry.epochs import claimed_through, end_epochs, give_up_epochs, is_live
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.register import Register
from photon.registry.view import unclosed_claimants
from photon.releases.foreign_commits import others_took_rows
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import CommitConflict, OutputTable, app_id, fence_epoch

log = logging.getLogger(__name__)

LOOK_US = 2 * MICROSECONDS  # between two looks at the others, while something is held
# Before a lake that could not be reached is tried again: each try may take `LAKE_TIMEOUT`, and the
# joins of this datacenter wait for it.
AGAIN_US = 20 * MICROSECONDS
# This share of a pause in which nobody looked counts as silence: this process may have been stopped itself.
SHARE_OF_A_PAUSE = 2

HaveRows = Callable[[Claimant, Hashes], Mask]  # which of these ids have a row of this plan
# At work; nothing heard of it for long; its epoch is over; given up, and its rows don't count.
EpochState = Literal["at work", "silent", "over", "given up"]


@dataclass
class SilenceWatch:
    """For how long the signs of each epoch have stood still, as far as this process has looked."""

    silent_after_us: int
    _looked_us: int | None = None
    _signs: dict[Epoch, object] = field(default_factory=dict)
    _silence_us: dict[Epoch, int] = field(default_factory=dict)

    def look(self, signs: Mapping[Epoch, object], now_us: int) -> None:
        """Take note of the signs as they are now. An epoch that is not among them is watched anew later."""
        pause_us = 0 if self._looked_us is None else now_us - self._looked_us
        counted_us = min(pause_us, self.silent_after_us // SHARE_OF_A_PAUSE)
        silence_us = dict(self._silence_us)
        self._silence_us = {
            epoch: silence_us.get(epoch, 0) + counted_us if self._signs.get(epoch) == sign else 0
            for epoch, sign in signs.items()
        }
        self._signs, self._looked_us = dict(signs), now_us

    def is_silent(self, epoch: Epoch) -> bool:
        """Whether its signs have stood still for long enough."""
        return self._silence_us.get(epoch, 0) >= self.silent_after_us


def epoch_state_of(epoch: Epoch, register: Register, is_live: bool, is_silent: bool) -> EpochState:
    """Whether an epoch is at work. `is_live`: no ledger calls it over, and it is its datacenter's newest."""
    if epoch.datacenter in register.lakes_gone:
        return "given up"
    if epoch.datacenter in register.given_up or not is_live:
        return "over"
    return "silent" if is_silent else "at work"


class OtherEpochs:
    """The epochs of other datacenters, as one dispatcher sees them. RegistryUnavailable, RegistryMismatch."""

    def __init__(self, watch: RegistryWatch) -> None:
        """`watch` looks at the registry now and then, also where no batch does."""
        self._watch = watch
        self._pipeline, self._datacenter = watch.pipeline, watch.datacenter
        self._registry, self._clock, self._lakes = watch.registry, watch.machine.clock, watch.lakes
        self._silence = SilenceWatch(microseconds(watch.pipeline.recovery.silent_after))
        self._tended_us: int | None = None
        self._unclosed: set[Claimant] = set()  # other datacenters' claimants at the last look
        self._awaited: set[Epoch] = set()  # those that have kept records waiting since
        self._fenced: set[Epoch] = set()
        self._stuck: dict[Epoch, str] = {}  # why nothing can be done for what they hold
        self._stuck_us: dict[Epoch, int] = {}  # when that was tried last
        self._unread: dict[str, str] = {}  # why nobody knows the rows of a given-up datacenter

    # -- what people have decided, as the register was read last: each check of a claim reads it

    @property
    def given_up(self) -> frozenset[str]:
        """Datacenters that never run again."""
        return frozenset(self._registry.register.given_up)

    @property
    def absent(self) -> frozenset[str]:
        """These, and those that are on hold."""
        return self.given_up.union(self._registry.register.on_hold)

    @property
    def is_stopped(self) -> bool:
        """Whether a person has put this very datacenter on hold, or retired it."""
        return self._datacenter in self.absent

    def notice_hold(self) -> None:
        """Look at the registry now and then: without a batch nobody else does."""
        self._watch.tend()

    def is_alone(self, epoch: Epoch) -> bool:
        """Whether this is its datacenter's newest epoch, and the datacenter was not given up."""
        register = self._registry.read_register()
        return epoch.datacenter not in register.given_up and (
            register.epochs.get(epoch.datacenter, 0) <= epoch.number
        )

    # -- what others hold

    def note_held(self, epochs: Iterable[Epoch]) -> None:
        """Records wait for what these epochs hold."""
        self._awaited.update(epochs)

    def tend(self, count_held: int) -> bool:
        """Pass over batches of epochs that are silent, and end those that are over and were left unfinished.

        Whether the records that are held are worth another look now.
        """
        unclosed = self._others_unclosed()
        if not count_held and not any(self._is_over(epoch) for epoch in _epochs(unclosed)):
            self._forget()
            return False
        now_us = self._clock.elapsed_us()
        if self._tended_us is not None and now_us - self._tended_us < LOOK_US:
            return False
        self._tended_us = now_us
        self._registry.read_on()
        epochs = _epochs(self._others_unclosed())
        beats = self._registry.beats(sorted(epochs))
        # A new batch is a sign as well (E6).
        signs = {epoch: (beats[epoch], claimed_through(self._registry, epoch)) for epoch in epochs}
        self._silence.look(signs, self._clock.elapsed_us())
        for epoch in sorted(epochs):
            self._free_unless_at_work(epoch)
        return self._has_changed(count_held)

    def _has_changed(self, count_held: int) -> bool:
        """Whether something is held no more that records may wait for."""
        before, self._unclosed = self._unclosed, self._others_unclosed()
        epochs = _epochs(self._unclosed)
        is_gone = bool(before - self._unclosed) or not self._awaited <= epochs
        self._awaited &= epochs
        self._stuck = {epoch: why for epoch, why in self._stuck.items() if epoch in epochs}
        return bool(count_held) and (is_gone or not epochs)

    def _forget(self) -> None:
        self._unclosed.clear()
        self._awaited.clear()
        self._stuck.clear()

    def _others_unclosed(self) -> set[Claimant]:
        unclosed = unclosed_claimants(self._registry.view)
        return {one for one in unclosed if one.epoch.datacenter != self._datacenter}

    @property
    def out_of_reach(self) -> dict[str, str]:
        """Why a datacenter's holds can't be freed here, or that the registry lacks its rows; by name."""
        return {
            **self._watch.unread,
            **self._unread,
            **{epoch.datacenter: reason for epoch, reason in self._stuck.items()},
        }

    @property
    def wait_for_others(self) -> bool:
        """Whether all that is held can be settled by others alone."""
        return bool(self._unclosed) and _epochs(self._unclosed) == self._stuck.keys()

    @property
    def wait_for_tables(self) -> bool:
        """Whether records wait for the table of a retired datacenter, which can't be read now."""
        return bool(self._unread)

    def rows_of_given_up(self, datacenter: str) -> HaveRows:
        """Which ids have a row that counts, by plan, in one snapshot of a given-up datacenter's table (L11).

        LakeUnavailable.
        """
        try:
            return self._rows_that_count(datacenter)
        except LakeUnavailable as error:
            self._unread[datacenter] = f"ordered records wait for its table: {error}"
            raise

    def _rows_that_count(self, datacenter: str) -> HaveRows:
        self._unread.pop(datacenter, None)
        if datacenter in self._registry.register.lakes_gone:
            return lambda claimant, hashes: np.zeros(len(hashes), bool)
        rows = self._lakes.ask(datacenter, partial(RowsOfPlans, self._table_of(datacenter)))
        return lambda claimant, hashes: self._lakes.ask(datacenter, partial(rows.have_rows, claimant, hashes))

    # -- one epoch

    def _is_over(self, epoch: Epoch) -> bool:
        return self._state_of(epoch) in ("over", "given up")

    def _state_of(self, epoch: Epoch) -> EpochState:
        is_silent, live = self._silence.is_silent(epoch), is_live(self._registry, epoch)
        return epoch_state_of(epoch, self._registry.register, live, is_silent)

    def _free_unless_at_work(self, epoch: Epoch) -> None:
        """See to what the epoch holds, unless it is at work; later, where its lake is out of reach."""
        epoch_state = self._state_of(epoch)
        if epoch_state == "at work" or self._was_just_stuck(epoch):
            return
        try:
            if epoch_state != "silent" or not self._pass_over(epoch):
                self._end(epoch, epoch_state)
        except CommitConflict as error:  # another survivor does the same, or the epoch has just committed
            log.info("epoch %s is seen to at the next look: %s", epoch, error)
        except LakeUnavailable as error:
            if epoch not in self._stuck:
                log.warning(
                    "what datacenter %s holds waits, for its lake can't be reached: %s",
                    epoch.datacenter,
                    error,
                )
            self._stuck[epoch], self._stuck_us[epoch] = str(error), self._clock.elapsed_us()
        else:
            self._stuck.pop(epoch, None)
            fault_point("recover.after_close")

    def _was_just_stuck(self, epoch: Epoch) -> bool:
        since_us = self._stuck_us.get(epoch)
        return (
            epoch in self._stuck and since_us is not None and self._clock.elapsed_us() - since_us < AGAIN_US
        )

    def _pass_over(self, epoch: Epoch) -> bool:
        """Free what a silent epoch holds without a row (A25); False: it is to be ended."""
        datacenter, number = epoch
        batch = claimed_through(self._registry, epoch)  # before its tables are read
        closed = self._registry.view.closed_through(epoch)
        table = self._table_of(datacenter)
        lake, ask = table.folder.parent, partial(self._lakes.ask, datacenter)
        if (step := ask(partial(pass_over, lake, epoch, batch, closed))) == "end":
            return False
        fault_point("recover.after_passed")
        ask(partial(make_final, lake, epoch, batch, step))
        fault_point("recover.after_raised")
        behind = (app_id(datacenter, str(number)), batch)
        self._registry.close(Closing(epoch, batch, self._rowless_in(table, datacenter, behind)))
        log.warning(
            "datacenter %s is silent: what it holds up to batch %d of epoch %d, and has no row, is joined by "
            "the others",
            datacenter, batch, number,
        )  # fmt: skip
        return True

    def _end(self, epoch: Epoch, epoch_state: EpochState) -> None:
        """Close it for ever, and all before it; without a fence where its lake is gone, with all rows."""
        datacenter, number = epoch
        if epoch_state == "given up":
            give_up_epochs(self._registry, datacenter, number)
            return
        table = self._table_of(datacenter)
        fence, rowless = partial(self._fence, table), partial(self._rowless_in, table, datacenter)
        end_epochs(self._registry, datacenter, number, fence, rowless)

    def _fence(self, table: OutputTable, epoch: Epoch) -> None:
        """Make sure that the epoch commits no more (E1). CommitConflict, LakeUnavailable."""
        if epoch in self._fenced:
            return
        self._lakes.ask(
            epoch.datacenter, partial(fence_epoch, table.folder.parent, epoch.datacenter, str(epoch.number))
        )
        self._fenced.add(epoch)

    def _rowless_in(
        self, table: OutputTable, datacenter: str, behind: tuple[str, int] | None = None
    ) -> Rowless:
        others_took = partial(others_took_rows, self._pipeline, datacenter, table, self.given_up)
        rows = self._lakes.ask(datacenter, partial(rowless_unless_taken, table, others_took, behind))

        def rowless(at: ClaimsAt, unclosed: Unclosed) -> Mask:
            return self._lakes.ask(datacenter, partial(rows, at, unclosed))

        return rowless

    def _table_of(self, datacenter: str) -> OutputTable:
        """The table that the registry knows of this datacenter. LakeUnavailable."""
        return self._lakes.ask(
            datacenter, partial(_known_table, self._pipeline, datacenter, self._registry.register)
        )


def _epochs(claimants: Iterable[Claimant]) -> set[Epoch]:
    return {one.epoch for one in claimants}


def _known_table(pipeline: Pipeline, datacenter: str, register: Register) -> OutputTable:
    place = pipeline.datacenters.get(datacenter)
    if place is None:
        raise LakeUnavailable(f"the pipeline file has no datacenter {datacenter}")
    table = OutputTable(place.lake, "joined_events")
    if not table.exists():
        raise LakeUnavailable(f"there is no table {table.folder}")
    if table.table_id() != register.tables.get(datacenter):
        raise LakeUnavailable(f"the table {table.folder} is not the one that the registry knows")
    return table
