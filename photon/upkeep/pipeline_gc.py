"""Garbage collection (gc) of a pipeline's old ids: decide how far the boundary may go, then run a pass.

The pass is in `photon.registry.operations.gc`. Why a deleted id is never won again: docs/adr/0020.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from photon.clock import MICROSECONDS, Clock, in_utc
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.consensus.register import EpochRecord, Register
from photon.registry.open import open_registry
from photon.registry.operations.gc import EndpointGc, gc_pass, raise_boundary
from photon.registry.operations.init import find_registry
from photon.registry.quorum.proposer import QuorumRegistry
from photon.verification.stored_reports import StoredReport, newest

_DAY_US = 86_400 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class BoundaryLimit:
    """How far the boundary may go now (event time, microseconds; None: nowhere), and because of what."""

    boundary_us: int | None
    because: str


@dataclass(frozen=True, slots=True)
class GcResult:
    """What a pass did. `boundary_us` None: nothing was ever deleted, and no endpoint was asked."""

    boundary_before_us: int | None
    boundary_us: int | None
    because: str
    endpoints: Mapping[str, EndpointGc]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left for the next pass, as far as known."""
        return not any(one.problem for one in self.endpoints.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "boundary_before": None if self.boundary_before_us is None else in_utc(self.boundary_before_us),
            "boundary": None if self.boundary_us is None else in_utc(self.boundary_us),
            "because": self.because,
            "endpoints": {name: _endpoint_as_dict(one) for name, one in self.endpoints.items()},
        }


def _endpoint_as_dict(one: EndpointGc) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, size in (("before", one.before), ("deleted", one.deleted), ("after", one.after)):
        told[f"items_{name}"] = None if size is None else size.items
        told[f"bytes_{name}"] = None if size is None else size.bytes
    return {**told, "problem": one.problem}


def run_gc(pipeline: Pipeline, clock: Clock, say: Callable[[str], None] = lambda text: None) -> GcResult:
    """Raise the boundary as far as it may go, and delete what is below it at every endpoint that answers.

    `say` is told how far it is.

    Joins and other passes may run at the same time, and a pass that died is simply run again.
    RegistryUnavailable, LakeUnavailable, and what `find_registry` raises.
    """
    asked = may_go(pipeline, clock)
    register, before_us = asked.register, asked.register.boundary_us
    if asked.is_off:
        return GcResult(before_us, before_us, asked.limit.because, {})
    if asked.limit.boundary_us is not None:
        register = raise_boundary(asked.registry, asked.limit.boundary_us)
    # With time_in_id every id carries its time, with a codec only those of its form.
    timeless = not pipeline.foreign.time_in_id
    done = gc_pass(asked.registry, register, timeless_shards=timeless, say=say)
    by_endpoint = {str(asked.address.endpoints[one.slot]): one for one in done}
    return GcResult(before_us, register.boundary_us, asked.limit.because, by_endpoint)


@dataclass(frozen=True)
class MayGo:
    """A pipeline's registry now, and how far its boundary may go."""

    address: RegistryAddress
    registry: QuorumRegistry
    register: Register
    limit: BoundaryLimit
    keeps_all: bool  # registry.keep_days is not set

    @property
    def is_off(self) -> bool:
        """Whether nothing may be deleted, and no endpoint need be asked."""
        return self.keeps_all or (self.limit.boundary_us is None and self.register.boundary_us is None)


def may_go(pipeline: Pipeline, clock: Clock) -> MayGo:
    """How far the boundary may go, by the stored verifications. Raises what `run_gc` does."""
    address = find_registry(pipeline)
    registry = open_registry(address)
    register = registry.register.read()
    needed = datacenters_to_verify(pipeline.datacenters, register.epochs.values(), register.given_up)
    names = [name for name in needed if name in pipeline.datacenters]
    stored = newest(pipeline, names)
    reports = {name: stored.get(name) for name in names}
    keep_days = pipeline.registry.keep_days
    limit = boundary_limit(clock.now_us(), keep_days, reports, register.epochs, register.given_up)
    return MayGo(address, registry, register, limit, keep_days is None)


# -- how far the boundary may go: pure


def boundary_limit(
    now_us: int,
    keep_days: int | None,
    reports: Mapping[str, StoredReport | None],
    epochs: Mapping[str, EpochRecord],
    given_up: Collection[str] = (),
) -> BoundaryLimit:
    """The boundary that `keep_days` and the newest verification of each datacenter allow.

    Never past what a datacenter has verified (protocol C2): until then an id may be registered without a row,
    and has to be there to be released. `reports`: of the datacenters in the pipeline file that have to be
    verified; `epochs`, `given_up`: the register's.
    """
    if keep_days is None:
        return BoundaryLimit(None, "registry.keep_days is null: ids are kept for ever")
    boundary_us, because = now_us - keep_days * _DAY_US, f"ids are kept for {keep_days} days"
    for name in datacenters_to_verify(reports, epochs.values(), given_up):
        if name not in reports:
            return BoundaryLimit(
                None,
                f"{name} is not in the pipeline file, and the registry does not have it as lost for good: put"
                " it back there and verify it",
            )
        verified = _verified_until_us(name, reports[name], epochs)
        if isinstance(verified, str):
            return BoundaryLimit(None, verified)
        if verified < boundary_us:
            boundary_us, because = verified, f"{name} is verified up to there"
    return BoundaryLimit(boundary_us, because)


def _verified_until_us(
    name: str, report: StoredReport | None, epochs: Mapping[str, EpochRecord]
) -> int | str:
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
    # An epoch's name is random. So we notice a report from another lake, or from before this state was lost.
    # It says nothing about what is registered here.
    epoch = epochs.get(report.report["epoch"])
    if epoch is None or (epoch.datacenter, epoch.state) != (name, "live"):
        return f"the last verification of {name} was not of the epoch that it is in now: verify it again"
    return verified_us


def datacenters_to_verify(
    datacenters: Iterable[str], epochs: Iterable[EpochRecord], given_up: Collection[str] = ()
) -> list[str]:
    """Those in the pipeline file and those in the registry, but for the ones given up for good (protocol E2).

    What one of these has registered without a row, the others release as they read it; and none of them is
    verified beyond what it has read.
    """
    states: dict[str, set[str]] = {name: set() for name in datacenters}
    for epoch in epochs:
        states.setdefault(epoch.datacenter, set()).add(epoch.state)
    return [name for name, of in states.items() if of != {"retired"} and name not in given_up]
