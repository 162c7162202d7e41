"""Runs: what is due is looked for and committed; then the owner's document says how far they came."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from photon.event_store.interface import index_folder
from photon.logs.unread_files import UnreadFile
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock, microseconds
from photon.process.errors import WrongUsage
from photon.process.faults import fault_point
from photon.process.operating_system import HeldByAnother, held_alone
from photon.process.readable import counted
from photon.registry.id_registry import IdRegistry
from photon.registry.register import Register, with_unmatched_owner
from photon.releases.at_once import release_now
from photon.releases.numbering import last_release
from photon.releases.reading import OpenRelease
from photon.releases.release import Release
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import last_said
from photon.state.starting import what_starts, what_starts_any
from photon.state.unmatched import UnmatchedProgress, publish, published
from photon.state.unread_logs import unread_now
from photon.state.view import open_view, view_state
from photon.storage.tables import FENCE_VERSION, CommitConflict, app_id
from photon.storage.tokens import PlanKey, new_id
from photon.unmatched.deciding import (
    HOUR_US,
    Due,
    UnmatchedSight,
    due,
    next_run,
    positions_of,
    read_as_of,
    rows_left,
    up_to,
    why_all,
)
from photon.unmatched.found import HeldBack, UnmatchedFound
from photon.unmatched.lakes import Lakes, earlier_rows_end_us, lakes_of
from photon.unmatched.looking import LookedAt, Looking, OwnersPrimaries

LOCK = "unmatched.lock"  # in the owner's state folder
DAY_US = 24 * HOUR_US

log = logging.getLogger(__name__)


def find_unmatched(
    pipeline: Pipeline, registry: IdRegistry, clock: Clock, anew: bool = False, dry_run: bool = False
) -> UnmatchedFound:
    """Write the primaries that are due and that no row names, in as many runs as that takes.

    `anew`: look at all of the index. HeldBack, WrongUsage, LakeUnavailable, ReleaseUnreadable,
    StateUnavailable, RegistryUnavailable.
    """
    if pipeline.unmatched is None:
        raise WrongUsage(f"{pipeline.file} has no section `unmatched`: add a line such as unmatched: {{}}")
    register = registry.read_register()
    if not dry_run and register != with_unmatched_owner(register, pipeline.datacenters):
        register = registry.change(lambda now: with_unmatched_owner(now, pipeline.datacenters))
    owner = _owner(pipeline, register)
    with nullcontext() if dry_run else _alone(pipeline.datacenters[owner].state):
        runs = Runs(pipeline, registry, register, owner, clock, dry_run)
        found, is_cut = runs.once(anew)
        while is_cut and not dry_run:
            more, is_cut = runs.once(anew=False)
            found = more.after(found)
    if not dry_run:
        release_now(pipeline, registry, owner, clock)
    return found


def _owner(pipeline: Pipeline, register: Register) -> str:
    """The one datacenter that writes unmatched primaries (U1). HeldBack: it can't now."""
    owner = with_unmatched_owner(register, pipeline.datacenters).unmatched_owner
    if not owner:
        raise HeldBack(f"no datacenter has joined yet: {what_starts_any(pipeline)}")
    if owner not in pipeline.datacenters:
        lost = f"photon retire {pipeline.typed} {owner}"
        raise HeldBack(
            f"datacenter {owner} writes unmatched primaries, and {pipeline.file} does not name it: "
            f"put it back there; if it is lost for good: {lost}"
        )
    if register.is_refilling:
        raise HeldBack("the ids of all rows are being put back into the registry: run it again after that")
    if owner in register.on_hold:
        raise HeldBack(f"datacenter {owner} is on hold: photon resume {pipeline.typed} {owner}")
    if not (state := pipeline.datacenters[owner].state).is_dir():
        raise HeldBack(
            f"datacenter {owner} writes unmatched primaries, and its state {state} is not on this machine: "
            "run this where it is"
        )
    return owner


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Have no other run beside this one. HeldBack."""
    try:
        with held_alone(state / LOCK):
            yield
    except HeldByAnother as error:
        process = error.process or "unknown"
        raise HeldBack(f"another run is under way (process {process}): wait until it has ended") from None


@dataclass
class Runs:
    """The runs of one command."""

    pipeline: Pipeline
    registry: IdRegistry
    register: Register
    owner: str
    clock: Clock
    dry_run: bool

    def __post_init__(self) -> None:
        self.place = self.pipeline.datacenters[self.owner]
        self.epoch = self.register.epochs[self.owner]
        self.app = app_id(self.owner, str(self.epoch), "unmatched")

    def once(self, anew: bool) -> tuple[UnmatchedFound, bool]:
        """One run, and whether it has left some of what is due."""
        said = last_said(self.place.lake)  # first: what it speaks of is in the view
        view, before = self._see(), self._before()
        self.registry.read_on()
        release = last_release(self.registry.view)
        if release is None:
            raise HeldBack(f"there is no release yet: {what_starts_any(self.pipeline)}")
        lakes = lakes_of(self.pipeline, self.register, self.owner)
        version = self._version(lakes, before)
        sight = self._sight(release, said, view, lakes)
        due_now = due(sight)
        found = UnmatchedFound(self.owner, self.epoch, release.number, held_back=_held_back(sight, due_now))
        if due_now.up_to_us is None:
            return found, False
        opened = OpenRelease(self.pipeline, release)
        because = why_all(before, self.epoch, version, sight.now_us, release.rows_left_with, anew)
        looking = Looking(
            logs=self.place.logs,
            log=self.pipeline.primary,
            columns=self.pipeline.unmatched.columns if self.pipeline.unmatched else (),
            lakes=lakes,
            opened=opened,
            sight=sight,
            before=before,
            since_us=_next_day(earlier_rows_end_us(opened)) if before is None or anew else before.since_us,
            at_all=bool(because),
            plan=PlanKey(
                self.owner, str(self.epoch), next_run(version, self.epoch, release, self.owner), new_id()
            ),
            writes=not self.dry_run,
        )
        until_us = up_to(due_now.up_to_us, before, self.epoch, rows_left(release, self.owner))
        looked_at = looking.look(self._see, view, until_us)
        found = _told(replace(found, since_us=looking.since_us, looked_at_all=because), looked_at)
        if not self.dry_run:
            self._commit(found, looking, looked_at, version)
        return replace(found, runs=int(bool(looked_at.files))), looked_at.is_cut

    def _version(self, lakes: Lakes, before: UnmatchedProgress | None) -> int:
        """The last run that the table has of this epoch; no other epoch commits to it from now on (U1).

        HeldBack, LakeUnavailable.
        """
        table = lakes.own
        if not self.dry_run:
            table.create(self.pipeline.name, self.owner)
            # Who ends an epoch says so in the register first, and then fences the tables that are there.
            now = self.registry.read_register()
            own = (self.owner, self.epoch)
            if now.is_refilling or (now.unmatched_owner, now.epochs.get(self.owner)) != own:
                raise HeldBack("another epoch, owner or refill has begun: run it again")
            lakes.fence(now)
        version = table.version_of(self.app) if table.exists() else 0
        if version >= FENCE_VERSION:
            raise HeldBack(f"epoch {self.epoch} of datacenter {self.owner} has ended: it has to join again")
        if version and not self.dry_run and (before is None or before.run != version):
            table.sync()  # the process that committed may have been killed right after
        return version

    def _commit(self, found: UnmatchedFound, looking: Looking, looked_at: LookedAt, version: int) -> None:
        """Make the rows visible, then say how far the run came (U2, U5). HeldBack, LakeUnavailable."""
        before, plan = looking.before, looking.plan
        run, plan_id = version, before.plan_id if before is not None and before.run == version else ""
        if looked_at.files:
            fault_point("unmatched.before_commit")
            try:
                looking.lakes.own.commit(looked_at.files, self.app, plan.batch, version, plan.plan_id)
            except CommitConflict as error:
                raise HeldBack(f"another run, or a new epoch, was first: {error}; run it again") from error
            run, plan_id = plan.batch, plan.plan_id
            fault_point("unmatched.after_commit")
        is_full = looking.at_all or before is None
        view = looked_at.view
        positions = positions_of(view.files, view.under_way, looked_at.lines.unreadable)
        progress = UnmatchedProgress(
            datacenter=self.owner,
            epoch=self.epoch,
            run=run,
            plan_id=plan_id,
            up_to_us=looked_at.up_to_us,
            since_us=found.since_us,
            release=found.release,
            full_pass_us=looking.sight.now_us if is_full or before is None else before.full_pass_us,
            positions=positions,
            counts=found.counts,
            held_back=found.held_back,
            read_us=read_as_of(looking.sight, view.files, positions),
        )
        publish(looking.lakes.places[self.owner], progress)
        fault_point("unmatched.after_document")

    def _see(self) -> OwnersPrimaries:
        """The owner's logs and index as they are now. HeldBack, StateUnavailable."""
        state = self.place.state
        joins = what_starts(self.pipeline, self.owner)
        with open_view(state) as found:
            if found is None or found.epoch != str(self.epoch):
                has = "nothing" if found is None else f"epoch {found.epoch}"
                raise HeldBack(f"{state} has {has}, and epoch {self.epoch} has begun: {joins}")
            if found.index_lost:
                raise HeldBack(f"the index of primary events in {state} is lost: {joins} makes it again")
            plan = found.open_plan()
            contents = [content for _, content in found.requeued()] + ([plan.content] if plan else [])
            return OwnersPrimaries(
                index_folder(found.work),
                {number: one for number, one in found.files().items() if one.file.side == "primary"},
                tuple(found.segments()),
                tuple(each for content in contents for each in content.primary),
                found.watermark_us,
            )

    def _before(self) -> UnmatchedProgress | None:
        """Read how far the last run came, where that can be read; nothing needs it. FormatTooNew."""
        try:
            return published(self.place.lake)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("how far earlier runs came can't be read, so all is looked at: %s", error)
            return None

    def _unread(self) -> tuple[UnreadFile, ...]:
        now_us = self.clock.now_us()
        return unread_now(self.pipeline, self.owner, view_state(self.place.state, now_us), now_us)

    def _sight(
        self, release: Release, said: Completeness | None, view: OwnersPrimaries, lakes: Lakes
    ) -> UnmatchedSight:
        assert self.pipeline.unmatched is not None
        return UnmatchedSight(
            self.owner,
            self.epoch,
            self.clock.now_us(),
            microseconds(self.pipeline.unmatched.after),
            release,
            said,
            view.watermark_us,
            lakes.has_no_rows_behind(release.parts.get(self.owner)),
            self._unread(),
        )


def _held_back(sight: UnmatchedSight, due_now: Due) -> str:
    """Say what keeps primaries from being decided that are old enough by the clock; empty: nothing does."""
    old_us = (sight.now_us - sight.after_us) // HOUR_US * HOUR_US
    if due_now.up_to_us is None:
        return due_now.because
    is_late = due_now.up_to_us < old_us
    return f"{due_now.because}, and primaries are due `unmatched.after` behind that" if is_late else ""


def _told(found: UnmatchedFound, looked_at: LookedAt) -> UnmatchedFound:
    """All that a run found, with what it looked at."""
    lines = looked_at.lines
    names = tuple(sorted(file.path for file in lines.files.values()))
    held_back = found.held_back
    if names:
        unread = f"{counted(lines.unreadable.total(), 'line')} of primary logs can't be read again"
        held_back = "; ".join(filter(None, (held_back, f"{unread}, such as in {names[0]}")))
    return replace(
        found,
        up_to_us=looked_at.up_to_us,
        held_back=held_back,
        candidates=looked_at.candidates,
        unmatched=looked_at.reasons,
        late=looked_at.late,
        conflicting=looked_at.conflicting,
        unreadable=lines.unreadable.total(),
        unreadable_files=names,
        unfit=lines.unfit,
    )


def _next_day(time_us: int | None) -> int | None:
    """The end of a time's day in UTC."""
    return None if time_us is None else (time_us // DAY_US + 1) * DAY_US
