"""Garbage collection (gc) of old ids: the boundary rises, full generations of ledgers end, old ones go.

Never past what the last verification of every datacenter has seen. Why an id that was dropped is never won
again: docs/proof.md (Collection), and rules L5 and L12.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, in_iso, in_utc
from photon.process.faults import fault_point
from photon.process.readable import counted
from photon.registry.entry import LedgerId, told_boundary
from photon.registry.errors import RegistryUnavailable
from photon.registry.generations import drop, droppable, raise_boundary, roll
from photon.registry.id_registry import IdRegistry
from photon.registry.imagined import imagined
from photon.registry.positions import Positions
from photon.registry.register import Register
from photon.registry.view import View, current_register
from photon.upkeep.plans import Say, refuse_outdated, silent
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
    """The work of one pass. `generation`: the newest one. `problem`: the next pass takes it up.

    `kept_because`: why no id is dropped; empty if a generation is.
    """

    because: str
    boundary_before_us: int | None
    boundary_us: int | None
    generation: int
    rolled: bool
    dropped: tuple[int, ...]
    before: RegistrySize
    after: RegistrySize
    kept_because: str = ""
    problem: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left for the next pass, as far as known."""
        return self.problem is None

    def sentences(self, dry_run: bool = False) -> list[str]:
        """The work of the pass, for people."""
        begun, is_now = ("would begin", "would be") if dry_run else ("has begun", "is")
        times = (self.boundary_us, self.boundary_before_us)
        now, before = ("none" if at_us is None else in_utc(at_us, "seconds") for at_us in times)
        said = [f"boundary: {now} (before: {before}); {self.because}"]
        if self.rolled:
            said.append(f"generation {self.generation} of ledgers {begun}")
        if self.dropped:
            ids = counted(self.before.ids - self.after.ids, "id")
            said.append(f"generation {', '.join(map(str, self.dropped))} {is_now} dropped, with {ids}")
        if self.kept_because:
            said.append(f"no id {is_now} dropped: {self.kept_because}")
        return said

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        times = (("boundary_before", self.boundary_before_us), ("boundary", self.boundary_us))
        return {
            "because": self.because,
            **{name: None if at_us is None else in_iso(at_us) for name, at_us in times},
            "generation": self.generation,
            "rolled": self.rolled,
            "dropped": list(self.dropped),
            "kept_because": self.kept_because,
            "before": asdict(self.before),
            "after": asdict(self.after),
            "problem": self.problem,
        }


@dataclass(frozen=True)
class GcPlan:
    """A pass to come: a new boundary, and the generation that is full.

    A dry run is the same pass on an imagined registry.
    """

    pipeline: Pipeline
    registry: IdRegistry
    register: Register  # when the plan was made
    limit: BoundaryLimit
    boundary_us: int | None  # None: it stays where it is
    full_generation: int | None  # the next one begins behind it

    @property
    def expected(self) -> GcResult:
        """The result that a pass has if nobody else appends."""
        return self._collected(*imagined(self.registry.view), silent)

    def apply(self, say: Say = silent) -> GcResult:
        """Raise the boundary, begin the next generation, and drop old ones; a pass that died is run again.

        PlanOutdated, LakeUnavailable. If the registry does not answer, the result has the problem.
        """
        return self._collected(self.registry.view, self.registry.positions, say)

    def _collected(self, view: View, positions: Positions, say: Say) -> GcResult:
        before, dropped, kept, problem = size_of(view), tuple[int, ...](), self.limit.because, None
        if self.pipeline.registry.keep_days is not None:
            try:
                dropped = self._collect(view, positions, before, say)
                kept = why_kept(view)
            except RegistryUnavailable as error:
                problem = str(error)
        newest_one = len(view.register.generations) - 1
        return GcResult(
            self.limit.because,
            told_boundary(self.register.boundary_us),
            told_boundary(view.register.boundary_us),
            newest_one,
            rolled=newest_one > len(self.register.generations) - 1,
            dropped=dropped,
            before=before,
            after=size_of(view),
            kept_because="" if dropped or problem else kept,
            problem=problem,
        )

    def _collect(self, view: View, positions: Positions, before: RegistrySize, say: Say) -> tuple[int, ...]:
        """The generations that are dropped. PlanOutdated, RegistryUnavailable."""
        refuse_outdated(self.register, current_register(positions))
        if self.boundary_us is not None:
            say(f"the boundary goes to {in_utc(self.boundary_us)}")
            raise_boundary(view, positions, self.boundary_us)
        fault_point("gc.after_boundary")
        if (full := self.full_generation) is not None:
            say(f"generation {full} has {counted(before.bytes, 'byte')} of entries: the next one begins")
            ledgers = view.register.generations[full].ledgers
            roll(view, positions, ledgers, homes_of(self.pipeline, ledgers), after=full)
        fault_point("gc.after_roll")
        return tuple(drop(view, positions))


def plan_gc(pipeline: Pipeline, registry: IdRegistry, clock: Clock) -> GcPlan:
    """Plan a pass: the boundary as far as it may go, a generation behind a full one, old ones dropped.

    RegistryUnavailable, LakeUnavailable.
    """
    register = registry.register
    limit = may_go(pipeline, register, clock)
    rises = limit.boundary_us is not None and limit.boundary_us > register.boundary_us
    full = full_generation(registry.view)
    return GcPlan(pipeline, registry, register, limit, limit.boundary_us if rises else None, full)


def why_kept(view: View) -> str:
    """Why no id can be dropped; empty if some can."""
    found = droppable(view)
    if isinstance(found, int):
        return ""
    takes_claims = len(view.register.live_generations) == 1
    return found.because + (f", at {GENERATION_BYTES:,} bytes of entries" if takes_claims else "")


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
    boundary_us, because = now_us - keep_days * _DAY_US, f"ids are kept for {counted(keep_days, 'day')}"
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
    if report is None:
        return f"{name} was never verified: verify it first"
    if not report.ok:
        return f"the last verification of {name} found a promise broken: mend that first"
    lost = [file for file in report.report["unverified"] if file["side"] == "foreign"]
    if lost:  # they may have registered ids without a row, and nobody can tell which
        one = lost[0]
        return (
            f"foreign logs of {name} can't be read again and were read further than verified, such as "
            f"{one['path']} ({counted(one['bytes'], 'byte')}; {one['reason']}): put them back as "
            "they were, and verify"
        )
    verified_us: int | None = report.report["verified_until_us"]
    if verified_us is None:
        return f"the last verification of {name} read no event: verify it again"
    # A report from another lake, or from before this state was lost, says nothing about what is held here.
    if report.report["epoch"] != str(register.epochs.get(name, 0)):
        return f"the last verification of {name} was not of the epoch that it is in now: verify it again"
    return verified_us


def datacenters_to_verify(datacenters: Iterable[str], register: Register) -> list[str]:
    """All datacenters of the pipeline file and the registry but the retired ones (protocol E2)."""
    names: Collection[str] = dict.fromkeys([*datacenters, *register.epochs])
    return [name for name in names if name not in register.given_up]
