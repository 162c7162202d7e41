"""Let faults happen to simulated datacenters, and people act on them, at moments of the seed's choice."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from photon.pipeline.file import Pipeline
from photon.registry.entry import NO_BOUNDARY_US
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.register import with_hold
from photon.state.database import STATE_FILE, StateUnavailable
from photon.storage.columns import TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable
from photon.upkeep.plans import carry_out
from photon.upkeep.refill import NotRefilled
from photon.upkeep.reshard import homes_of
from photon.upkeep.retirable import NotRetired
from photon.upkeep.retire import plan_retire
from tests.simulation.verifying import recover_from, verify
from tests.simulation.whole import unmatched
from tests.simulation.whole.copies import Copies
from tests.simulation.whole.invariants import Invariants
from tests.simulation.whole.logs import Writers
from tests.simulation.whole.processes import EVEN, Worker
from tests.simulation.whole.shifts import Shifts
from tests.simulation.whole.site import Site
from tests.simulation.world import World

log = logging.getLogger(__name__)

# Seeds with this focus rotate logs out of sight, and little else happens to their datacenters.
# Seeds with this focus have silent datacenters passed over, which come back with their states (A25).
FALL_SILENT = "fall_silent"
PASSING = (*[FALL_SILENT] * 60, "kill", "freeze", "cut_off", "lose_worker", "reshard", "gc", "fill_disk")
PASSING += ("retire", "lose_state", "hold")
# And copies of states and lakes are put back in the middle of it.
PASSING_COPIES = (*[FALL_SILENT] * 40, "kill", "copy_state", "restore_state", "clone", "reshard")
PASSING_COPIES += ("copy_stores", "put_back_lake", "put_back_state")
ROTATED_AWAY = ("move_log_away", "move_log_away", "kill", "freeze", "cut_off", "hold", "fill_disk")

UNAVAILABLE = (RegistryUnavailable, LakeUnavailable, StateUnavailable, NotRetired, NotRefilled)
UNAVAILABLE += (RegistryMismatch,)  # only where copies are put back
Deed = Callable[[], None]


class View(World):
    """The world as a command sees it. `invariants` has read the rows, once after each commit."""

    invariants: Invariants

    def rows(self, table: TableName = "joined_events") -> list[dict[str, Any]]:
        """See `World`."""
        return [row for name in self.pipeline.datacenters for row in self.invariants.rows_of(name, table)]


class People:
    """Faults and operators of one seed, but for the registry's."""

    def __init__(self, site: Site, shifts: Shifts, invariants: Invariants, writers: Writers) -> None:
        self.site = site
        self.shifts = shifts
        self._invariants = invariants
        self._writers = writers
        # Logs go and tasks fail in one datacenter alone, and another one stays: so nothing is lost for all.
        self.loser = site.chance.choice(site.names)
        shifts.lose_a_log = writers.lose_a_log
        self.done: Counter[str] = Counter()
        self.held: set[str] = set()
        self.given_up: set[str] = set()
        self.rows_gone: set[str] = set()  # given up, and their lakes are gone
        self._copies: set[str] = set()  # datacenters of whose state there is a copy
        self._verifies = False
        self._cloned = 0
        self.copies = copies = Copies(site, shifts, invariants)
        copies.with_a_process, copies.alive = self._with_a_process, self.alive
        copies.retire, copies.given_up = self.carry_out_retirement, self.given_up
        self.deeds: dict[str, tuple[int, Deed]] = {
            "kill": (4, self.kill),
            "freeze": (3, self.freeze),
            "freeze_with_claims": (2, lambda: shifts.freezing.add(self.somewhere())),
            "lose_worker": (2, self.lose_worker),
            "lose_log": (1, lambda: writers.lose_a_log(self.loser)),
            "die_and_lose_log": (2, lambda: shifts.dying_with_a_log.add(self.loser)),
            "gc": (1, self.gc),
            "reshard": (1, self.reshard),
            "cut_off": (2, self.cut_off),
            "registry_away": (2, self.registry_away),
            "lose_state": (1, self.lose_state),
            "copy_state": (1, self.copy_state),
            "restore_state": (1, self.restore_state),
            "clone": (1, self.clone),
            "hold": (1, self.hold),
            "retire": (1, self.retire),
            "recover": (2, self.recover),
            "remove_a_row": (1, self.remove_a_row),
            "fill_disk": (2, self.fill_disk),
            # Only where they are asked for.
            FALL_SILENT: (0, lambda: shifts.falling_silent.update(self.alive())),  # who claims next does
            "move_log_away": (0, lambda: writers.move_a_log_away(self.loser)),
            "copy_stores": (0, copies.take),
            "put_back_registry": (0, copies.put_back_registry),
            "put_back_lake": (0, copies.put_back_lake),
            "put_back_state": (0, copies.put_back_state),
            "put_back_all": (0, copies.put_back_all),
            unmatched.LOOKS: (0, self.look_for_unmatched),
            "freeze_a_look": (0, lambda: self.look_for_unmatched(self.site.chance.uniform(5, 40))),
        }

    @property
    def has_taken_rows(self) -> bool:
        """Say whether rows went that were there: then people have to recover."""
        return bool(self.done["remove_a_row"] or self.rows_gone or self.copies.has_taken_rows)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline as people have it by now: they take out datacenters that are gone with their lakes."""
        kept = {n: place for n, place in self.site.pipeline.datacenters.items() if n not in self.rows_gone}
        return self.site.pipeline.model_copy(update={"datacenters": kept})

    def act(self, focus: Sequence[str] = ()) -> None:
        """Have one thing happen, of these or of all."""
        names = focus or [name for name, (weight, _) in self.deeds.items() if weight]
        (name,) = self.site.chance.choices(names, [self.deeds[name][0] or 1 for name in names])
        self.done[name] += 1
        log.info("%.1f s: %s", self.site.network.now_seconds, name)
        self.deeds[name][1]()

    def alive(self) -> list[str]:
        """List the datacenters that were not given up."""
        return [name for name in self.site.names if name not in self.given_up]

    def somewhere(self) -> str:
        """Choose one of them."""
        return self.site.chance.choice(self.alive())

    def _later(self, seconds: float, deed: Deed) -> None:
        self.site.network.after(seconds, deed)

    def _with_a_process(self, datacenter: str, work: Callable[[Worker], None]) -> Worker:
        """Have a process of an operator do something there; it may be killed, and may find nobody."""
        dies_at = self.site.chance.randrange(1, 60) if self.site.chance.random() < 0.3 else None
        worker = self.shifts.worker(datacenter, EVEN, dies_at)

        def do() -> None:
            try:
                work(worker)
            except UNAVAILABLE as error:
                log.info("an operator in %s: %s", datacenter, error)

        worker.start(do)
        return worker

    # -- faults

    def kill(self) -> None:
        """A shift dies where it is."""
        running = list(self.shifts.running)
        if running:
            self.site.chance.choice(running).kill()

    def freeze(self) -> None:
        """A shift is stopped where it is, for longer than others take it for alive."""
        running = list(self.shifts.running)
        if running:
            self.site.chance.choice(running).frozen_seconds = self.site.chance.uniform(5, 40)

    def lose_worker(self) -> None:
        """A task fails right after it has registered ids; of one record alone that is a dead letter (A11)."""
        self.shifts.failing_workers.add(self.loser)

    def cut_off(self) -> None:
        """A datacenter does not reach the registry for a while."""
        name = self.somewhere()
        self.shifts.cut_off.add(name)
        self._later(self.site.chance.uniform(1, 30), lambda: self.shifts.cut_off.discard(name))

    def registry_away(self) -> None:
        """The registry does not answer for a while."""
        self.site.ledgers.is_away = True

        def rise() -> None:
            self.site.ledgers.is_away = False

        self._later(self.site.chance.uniform(1, 20), rise)

    def fill_disk(self) -> None:
        """A datacenter's disk is full for a while."""
        name = self.somewhere()
        self.shifts.full_disks.add(name)
        self._later(self.site.chance.uniform(1, 20), lambda: self.shifts.full_disks.discard(name))

    def _kill_all_of(self, datacenter: str) -> None:
        for worker, name in list(self.shifts.running.items()):
            if name == datacenter:
                worker.kill()

    def lose_state(self) -> None:
        """A machine goes with its disk; the next shift begins on an empty one."""
        name = self.somewhere()
        self._kill_all_of(name)
        self._later(1.0, lambda: self._replace_state(name, None))

    def copy_state(self) -> None:
        """Somebody copies a state folder while nothing runs there."""
        name = self.somewhere()
        state = self.site.pipeline.datacenters[name].state
        if name not in self.shifts.running.values() and (state / STATE_FILE).exists():
            self._copies.add(name)
            shutil.rmtree(self._copy_of(name), ignore_errors=True)
            shutil.copytree(state, self._copy_of(name))

    def restore_state(self) -> None:
        """A copy of long ago is put back."""
        name = self.somewhere()
        if name in self._copies:
            self._kill_all_of(name)
            self._later(1.0, lambda: self._replace_state(name, name))

    def _copy_of(self, name: str) -> Path:
        return self.site.folder / f"copy-of-{name}"

    def _replace_state(self, name: str, copy: str | None) -> None:
        if name in self.shifts.running.values():
            return  # a process has begun before the state is replaced
        state = self.site.pipeline.datacenters[name].state
        shutil.rmtree(state, ignore_errors=True)
        self.shifts.forget_state(name)
        if copy is not None:
            shutil.copytree(self._copy_of(copy), state)

    def clone(self) -> None:
        """A second machine runs a datacenter from a copy of its state, beside the first one."""
        name = self.somewhere()
        if name not in self._copies:
            self.copy_state()
            return
        self._cloned += 1
        state = self.site.folder / f"clone-{self._cloned}"
        shutil.copytree(self._copy_of(name), state)
        worker = self.shifts.worker(name, self.shifts.pace)
        stop = self.shifts.stop_after(self.site.chance.uniform(1, 30))
        self.shifts.start(worker, name, "until_idle", stop, pipeline=self._with_state(name, state))

    def _with_state(self, name: str, state: Path) -> Pipeline:
        pipeline = self.site.pipeline
        place = pipeline.datacenters[name].model_copy(update={"state": state})
        return pipeline.model_copy(update={"datacenters": {**pipeline.datacenters, name: place}})

    def remove_a_row(self) -> None:
        """Somebody deletes a row; verification has to find it (E8)."""
        name = self.somewhere()
        table = OutputTable(self.site.pipeline.datacenters[name].lake, "joined_events")
        if name not in self.shifts.running.values() and table.exists():
            ids = self._not_collected(
                table.load().to_pyarrow_table(columns=["_event_id"])["_event_id"].to_pylist()
            )
            if ids:
                table.load().delete(f"_event_id = '{self.site.chance.choice(ids)}'")

    def _not_collected(self, ids: list[str]) -> list[str]:
        """The events that gc has not passed: of others nobody can make a row again."""
        boundary_us = self.site.ledgers.register.boundary_us
        return sorted(each for each in ids if self.site.times_us[each] >= boundary_us)

    # -- people

    def gc(self) -> None:
        """Old ids are collected, as far as all that can be joined has its row."""
        joined = {row["_event_id"] for row in self._invariants.rows()}
        times_us = self.site.times_us
        open_us = [times_us[each] for each in self._writers.joinable - joined]
        boundaries_us = [at for at in times_us.values() if at <= min(open_us, default=self.site.now_us)]
        if boundaries_us:
            boundary_us = self.site.chance.choice(boundaries_us)
            self._with_a_process(self.somewhere(), partial(self._collect, boundary_us))

    def _collect(self, boundary_us: int, worker: Worker) -> None:
        registry = worker.reader()
        raise_boundary(registry.view, registry.positions, boundary_us)
        drop(registry.view, registry.positions)

    def reshard(self) -> None:
        """A generation begins with more ledgers, or fewer."""
        ledgers = self.site.chance.choice((1, 2, 3, 5))
        self._with_a_process(self.somewhere(), partial(self._roll, ledgers))

    def _roll(self, ledgers: int, worker: Worker) -> None:
        registry = worker.reader()
        roll(registry.view, registry.positions, ledgers, homes_of(self.site.pipeline, ledgers))

    def hold(self) -> None:
        """A datacenter is put on hold, and resumed after a while."""
        name = self.somewhere()
        if name in self.held:
            return
        self.held.add(name)
        self._with_a_process(name, partial(self.set_hold, name, True))
        self._later(self.site.chance.uniform(5, 30), lambda: self.resume(name))

    def resume(self, name: str) -> None:
        """Let a datacenter that was on hold run again."""
        self.held.discard(name)
        if name not in self.given_up:
            self._with_a_process(name, partial(self.set_hold, name, False))

    def set_hold(self, name: str, is_held: bool, worker: Worker) -> None:
        """Run `photon hold` or `photon resume`."""
        worker.reader().change(lambda register: with_hold(register, name, is_held))

    def retire(self) -> None:
        """Lose a datacenter for good, with its lake or without; two of three at the most."""
        if len(self.alive()) == 1 or self.site.network.now_seconds < 20:
            return
        name = self.somewhere()
        if name != self.loser and len(self.alive()) == 2 and self.loser in self.alive():
            return
        is_needed = self.site.ledgers.register.boundary_us != NO_BOUNDARY_US
        lake_is_gone = not is_needed and self.site.chance.random() < 0.5
        self._kill_all_of(name)
        self.given_up.add(name)
        if lake_is_gone:
            self.rows_gone.add(name)
            self.shifts.away.add(name)
        self._later(1.0, partial(self._retire, name))

    def _retire(self, name: str) -> None:
        place = self.site.pipeline.datacenters[name]
        if name in self.rows_gone:
            shutil.rmtree(place.lake, ignore_errors=True)
            shutil.rmtree(place.state, ignore_errors=True)
        self._with_a_process(self.alive()[0], partial(self.carry_out_retirement, name))

    def carry_out_retirement(self, name: str, worker: Worker) -> None:
        """Run `photon retire`. NotRetired where the registry does not know the datacenter: it never ran."""
        lake_is_gone = name in self.rows_gone
        carry_out(lambda: plan_retire(self.site.pipeline, worker.reader(), name, lake_is_gone))

    def look_for_unmatched(self, frozen_seconds: float = 0.0) -> None:
        """Look for unmatched primaries where these are written; it may stand still before its commit."""
        owner = unmatched.owner_of(self.site, self.pipeline)
        if owner:
            worker = self._with_a_process(owner, partial(unmatched.look, self.pipeline))
            worker.frozen_at = ("unmatched.before_commit", frozen_seconds)

    def recover(self) -> None:
        """Verify and order what is missing, while all goes on."""
        self._with_a_process(self.somewhere(), self.verify_and_recover)

    def verify_and_recover(self, worker: Worker) -> None:
        """Verify and recover, one at a time: the simulation's replacements serve only one."""
        if self._verifies:
            return
        self._verifies = True
        try:
            view = self.view(worker)
            reports = {name: report.as_dict() for name, report in verify(view, self.alive()).items()}
            recover_from(view, reports)
        finally:
            self._verifies = False

    def view(self, worker: Worker) -> View:
        """The site as a command of this process sees it."""
        view = View.__new__(View)
        view.invariants = self._invariants
        view.folder = self.site.folder
        view.pipeline = self.pipeline
        view.ledgers, view.clock, view._numbers = worker.ledgers, worker, count(1)  # type: ignore[assignment]
        return view
