"""Garbage collection (gc) of old ids: the boundary rises, full generations of ledgers end, old ones go.

Never past what the last verification of every datacenter has seen. Why an id that was dropped is never won
again: docs/adr/0020, and rules L5 and L12.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, in_utc
from photon.process.faults import fault_point
from photon.registry.collecting import drop, droppable, raise_boundary
from photon.registry.entry import LedgerId, told_boundary
from photon.registry.errors import RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import open_reader
from photon.registry.register import Register, with_boundary, with_dropped
from photon.registry.rolling import roll
from photon.registry.view import View
from photon.upkeep.registry_state import RegistrySize, size_of
from photon.upkeep.reshard import homes_of
from photon.verification.stored_reports import StoredReport, newest

_DAY_US = 86_400 * MICROSECONDS

# Entries of a generation of ledgers before gc begins the next one: some 40 million ids. gc drops whole
# generations only, so of a small registry this much stays behind the boundary.
GENERATION_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class BoundaryLimit:
    """How far the boundary may go now (event time, microseconds; None: nowhere), and because of what."""

    boundary_us: int | None
    because: str


@dataclass(frozen=True, slots=True)
class GcResult:
    """The work of one pass. `generation`: the newest one. `problem`: the next pass takes it up."""

    because: str
    boundary_before_us: int | None
    boundary_us: int | None
    generation: int
    rolled: bool
    dropped: tuple[int, ...]
    before: RegistrySize
    after: RegistrySize
    problem: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left for the next pass, as far as known."""
        return self.problem is None

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        times = (("boundary_before", self.boundary_before_us), ("boundary", self.boundary_us))
        return {
            "because": self.because,
            **{name: None if at_us is None else in_utc(at_us) for name, at_us in times},
            "generation": self.generation,
            "rolled": self.rolled,
            "dropped": list(self.dropped),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "problem": self.problem,
        }


def run_gc(
    pipeline: Pipeline,
    clock: Clock,
    say: Callable[[str], None] = lambda text: None,
    registry: IdRegistry | None = None,
) -> GcResult:
    """Raise the boundary as far as it may go, begin the next generation if this one is full, drop old ones.

    `say` is told what is done. `registry`: that of a test. Joins and other passes may run at the same time,
    and a pass that died is simply run again. RegistryUnavailable before anything was done, LakeUnavailable,
    and what `find_registry` raises.
    """
    registry = registry or open_reader(pipeline)
    view, positions = registry.view, registry.positions
    limit, before = may_go(pipeline, registry.register, clock), size_of(view)
    told = _Told(limit.because, view.register, before)
    if pipeline.registry.keep_days is None:
        return told.result(view, before)
    try:
        if limit.boundary_us is not None and limit.boundary_us > view.register.boundary_us:
            say(f"the boundary goes to {in_utc(limit.boundary_us)}")
            raise_boundary(view, positions, limit.boundary_us)
        fault_point("gc.after_boundary")
        if (full := full_generation(view)) is not None:
            say(f"generation {full} has {before.bytes:,} bytes of entries: the next one begins")
            ledgers = view.register.generations[full].ledgers
            roll(view, positions, ledgers, homes_of(pipeline, ledgers), after=full)
        fault_point("gc.after_roll")
        dropped = tuple(drop(view, positions))
    except RegistryUnavailable as error:
        return replace(told.result(view, size_of(view)), problem=str(error))
    return replace(told.result(view, size_of(view)), dropped=dropped)


def would_gc(
    pipeline: Pipeline,
    clock: Clock,
    say: Callable[[str], None] = lambda text: None,
    registry: IdRegistry | None = None,
) -> GcResult:
    """What `run_gc` would do now; changes nothing, and raises the same."""
    registry = registry or open_reader(pipeline)
    view = registry.view
    limit, before = may_go(pipeline, registry.register, clock), size_of(view)
    told = _Told(limit.because, view.register, before)
    if pipeline.registry.keep_days is None:
        return told.result(view, before)
    after = _imagined(view, limit.boundary_us)
    dropped = []
    while (generation := droppable(after)) is not None:
        after.note(with_dropped(after.register, generation))
        dropped.append(generation)
    result = told.result(after, size_of(after))
    rolls = full_generation(view) is not None
    return replace(result, dropped=tuple(dropped), rolled=rolls, generation=result.generation + rolls)


@dataclass(frozen=True, slots=True)
class _Told:
    """The situation when a pass began."""

    because: str
    register: Register
    before: RegistrySize

    def result(self, view: View, after: RegistrySize) -> GcResult:
        """The result of the pass."""
        newest_generation = len(view.register.generations) - 1
        return GcResult(
            self.because,
            told_boundary(self.register.boundary_us),
            told_boundary(view.register.boundary_us),
            newest_generation,
            newest_generation > len(self.register.generations) - 1,
            (),
            self.before,
            after,
        )


def _imagined(view: View, boundary_us: int | None) -> View:
    """A view of what would be if the boundary were there, in the register and in every ledger."""
    imagined = copy.copy(view)
    imagined.states, imagined.holds = dict(view.states), copy.deepcopy(view.holds)
    if boundary_us is not None:
        imagined.register = with_boundary(view.register, boundary_us)
        for ledger, state in view.states.items():
            if state.takes_entries:
                at_least_us = max(boundary_us, state.boundary_us)
                imagined.states[ledger] = replace(state, boundary_us=at_least_us)
    return imagined


# -- what is due: pure but for the stored reports


def may_go(pipeline: Pipeline, register: Register, clock: Clock) -> BoundaryLimit:
    """How far the boundary may go, by the stored verifications. LakeUnavailable, FormatTooNew."""
    needed = datacenters_to_verify(pipeline.datacenters, register)
    names = [name for name in needed if name in pipeline.datacenters]
    stored = newest(pipeline, names)
    reports = {name: stored.get(name) for name in names}
    return boundary_limit(clock.now_us(), pipeline.registry.keep_days, reports, register)


def full_generation(view: View) -> int | None:
    """The newest generation, if it has as many bytes as one may: only whole ones are dropped (L12)."""
    newest_one = len(view.register.generations) - 1
    states = [view.states[LedgerId(*one)] for one in view.register.ledgers(newest_one)]
    is_full = sum(state.entries_bytes for state in states) >= GENERATION_BYTES
    return newest_one if is_full else None


def boundary_limit(
    now_us: int,
    keep_days: int | None,
    reports: Mapping[str, StoredReport | None],
    register: Register,
) -> BoundaryLimit:
    """How far the boundary may go: `keep_days` back, and not past what is verified.

    `reports`: the newest of each datacenter in the pipeline file that has to be verified.
    """
    if keep_days is None:
        return BoundaryLimit(None, "registry.keep_days is null: ids are kept for ever")
    boundary_us, because = now_us - keep_days * _DAY_US, f"ids are kept for {keep_days} days"
    for name in datacenters_to_verify(reports, register):
        if name not in reports:
            return BoundaryLimit(
                None,
                f"{name} is not in the pipeline file, and the registry does not have it as lost for good: put"
                " it back there and verify it",
            )
        verified = _verified_until_us(name, reports[name], register)
        if isinstance(verified, str):
            return BoundaryLimit(None, verified)
        if verified < boundary_us:
            boundary_us, because = verified, f"{name} is verified up to there"
    return BoundaryLimit(boundary_us, because)


def _verified_until_us(name: str, report: StoredReport | None, register: Register) -> int | str:
    """How far the newest verification of one datacenter reaches; or why it does not count."""
    if report is None or "epoch" not in report.report:
        return f"{name} was never verified, or not by this version: verify it first"
    if not report.ok:
        return f"the last verification of {name} found a promise broken: mend that first"
    lost = [file for file in report.report["unverified"] if file["side"] == "foreign"]
    if lost:  # they may have registered ids without a row, and nobody can tell which
        one = lost[0]
        return (
            f"foreign logs of {name} can't be read again and were read further than verified, such as "
            f"{one['path']} ({one['bytes']:,} bytes; {one['reason']}): put them back as they were and verify"
        )
    verified_us: int | None = report.report["verified_until_us"]
    if verified_us is None:
        return f"the last verification of {name} read no event: verify it again"
    # A report from another lake, or from before this state was lost, says nothing about what is held here.
    if report.report["epoch"] != str(register.epochs.get(name, 0)):
        return f"the last verification of {name} was not of the epoch that it is in now: verify it again"
    return verified_us


def datacenters_to_verify(datacenters: Iterable[str], register: Register) -> list[str]:
    """Those of the pipeline file and of the registry, but for the ones given up for good (protocol E2)."""
    names: Collection[str] = dict.fromkeys([*datacenters, *register.epochs])
    return [name for name in names if name not in register.given_up]
