"""Garbage collection of a pipeline's old ids: how far the boundary may go, and a pass over all endpoints.

Why a deleted id is never won again, and what that is worth: docs/adr/0020."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from photon.clock import MICROSECONDS, Clock, in_utc
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.consensus.register import EpochRecord
from photon.registry.open import open_registry
from photon.registry.operations.gc import EndpointGc, gc_pass, raise_boundary
from photon.registry.operations.init import find_registry
from photon.verification.report_table import StoredReport, newest

_DAY_US = 86_400 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class Limit:
    """How far the boundary may go now (event time, microseconds; None: nowhere), and because of what."""

    boundary_us: int | None
    because: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What a pass did. `boundary_us` None: nothing was ever collected, and no endpoint was asked."""

    boundary_before_us: int | None
    boundary_us: int | None
    because: str
    endpoints: Mapping[str, EndpointGc]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left for the next pass, as far as known."""
        return not any(one.problem for one in self.endpoints.values())

    def as_dict(self) -> dict[str, Any]:
        """For `--json`; times in UTC."""
        return {
            "boundary_before": None if self.boundary_before_us is None else in_utc(self.boundary_before_us),
            "boundary": None if self.boundary_us is None else in_utc(self.boundary_us),
            "because": self.because,
            "endpoints": {name: _swept(one) for name, one in self.endpoints.items()},
        }


def limit(
    now_us: int,
    keep_days: int | None,
    reports: Mapping[str, StoredReport | None],
    epochs: Mapping[str, EpochRecord],
) -> Limit:
    """The boundary that `keep_days` and the newest verification of each datacenter that counts allow.

    Never past what a datacenter has verified (protocol C2), for until then an id may be registered without a
    row: it has to be there to be released. `reports`: of the datacenters in the pipeline file that count;
    `epochs`: the register's.
    """
    if keep_days is None:
        return Limit(None, "registry.keep_days is null: ids are kept for ever")
    boundary_us = now_us - keep_days * _DAY_US
    because = f"ids are kept for {keep_days} days"
    for name in that_count(reports, epochs.values()):
        if name not in reports:
            return Limit(
                None,
                f"{name} is not in the pipeline file, and the registry does not have it as lost for good: put"
                " it back there and verify it",
            )
        verified = _verified(name, reports[name], epochs)
        if verified.boundary_us is None:
            return verified
        if verified.boundary_us < boundary_us:
            boundary_us, because = verified.boundary_us, verified.because
    return Limit(boundary_us, because)


def _verified(name: str, report: StoredReport | None, epochs: Mapping[str, EpochRecord]) -> Limit:
    """How far the newest verification of one datacenter lets the boundary go."""
    if report is None or "epoch" not in report.report:
        return Limit(None, f"{name} was never verified, or not by this version: verify it first")
    if not report.ok:
        return Limit(None, f"the last verification of {name} found a promise broken: mend that first")
    lost = [file for file in report.report["unverified"] if file["side"] == "foreign"]
    if lost:  # what they had registered may have no row, and nobody can tell which ids that are
        one = lost[0]
        return Limit(
            None,
            f"foreign logs of {name} can't be read again and were read further than verified, such as "
            f"{one['path']} ({one['bytes']:,} bytes; {one['reason']}): put them back as they were and verify",
        )
    verified_us = report.report["verified_until_us"]
    if verified_us is None:
        return Limit(None, f"the last verification of {name} read no event: verify it again")
    # An epoch's name is random: a report that came with a copy of another lake, or from before this state was
    # lost, vouches for nothing that is registered here.
    epoch = epochs.get(report.report["epoch"])
    if epoch is None or (epoch.datacenter, epoch.state) != (name, "live"):
        return Limit(
            None, f"the last verification of {name} was not of the epoch that it is in now: verify it again"
        )
    return Limit(verified_us, f"{name} is verified up to there")


def that_count(datacenters: Iterable[str], epochs: Iterable[EpochRecord]) -> list[str]:
    """The datacenters that have to be verified: those in the pipeline file, and whoever else is registered.

    One that is lost for good (protocol E2) is not waited for.
    """
    states: dict[str, set[str]] = {name: set() for name in datacenters}
    for epoch in epochs:
        states.setdefault(epoch.datacenter, set()).add(epoch.state)
    return [name for name, of_epochs in states.items() if of_epochs != {"retired"}]


def collect(pipeline: Pipeline, clock: Clock) -> Collected:
    """Raise the boundary as far as may be, and delete what is below it at every endpoint that answers.

    Joins may run meanwhile, and another collection too. One that was ended anywhere is simply run again.
    RegistryUnavailable, LakeUnavailable, and what `find_registry` raises.
    """
    address = find_registry(pipeline)
    registry = open_registry(address)
    register = registry.register.read()
    counting = that_count(pipeline.datacenters, register.epochs.values())
    names = [name for name in counting if name in pipeline.datacenters]
    stored = newest(pipeline, names)
    reports = {name: stored.get(name) for name in names}
    allowed = limit(clock.now_us(), pipeline.registry.keep_days, reports, register.epochs)
    before_us = register.boundary_us
    if pipeline.registry.keep_days is None or (allowed.boundary_us is None and before_us is None):
        return Collected(before_us, before_us, allowed.because, {})
    if allowed.boundary_us is not None:
        register = raise_boundary(registry, allowed.boundary_us)
    # With time_in_id every id carries its time, with a codec only those of its form.
    done = gc_pass(registry, register, clock, timeless_shards=not pipeline.foreign.time_in_id)
    return Collected(before_us, register.boundary_us, allowed.because, _by_endpoint(address, done))


def _by_endpoint(address: RegistryAddress, swept: Iterable[EndpointGc]) -> dict[str, EndpointGc]:
    return {str(address.endpoints[one.slot]): one for one in swept}


def _swept(one: EndpointGc) -> dict[str, Any]:
    sizes = {"before": one.before, "deleted": one.deleted, "after": one.after}
    told = {
        f"{what}_{name}": None if size is None else getattr(size, what)
        for name, size in sizes.items()
        for what in ("items", "bytes")
    }
    return {**told, "problem": one.problem}
