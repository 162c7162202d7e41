"""Collection of a pipeline's old ids: how far the boundary may go now, and a pass over all endpoints.

The boundary is a decision of what was verified, and pure; what a pass does is `photon.registry.sweep`. Why an
id that went is never won again, and what that is worth: docs/adr/0020.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from photon.clock import MICROSECONDS, Clock, in_utc
from photon.pipeline import Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.init import find_registry
from photon.registry.open import open_registry
from photon.registry.register import EpochRecord
from photon.registry.sweep import Swept, raise_boundary, sweep
from photon.verification_table import StoredReport, newest

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
    endpoints: Mapping[str, Swept]

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


def limit(now_us: int, keep_days: int | None, reports: Mapping[str, StoredReport | None]) -> Limit:
    """The boundary that `keep_days` and the newest verification of each datacenter that counts allow.

    Never past what a datacenter has verified (protocol C2), for until then an id may be registered without a
    row: it has to be there to be released.
    """
    if keep_days is None:
        return Limit(None, "registry.keep_days is null: ids are kept for ever")
    allowed = Limit(now_us - keep_days * _DAY_US, f"ids are kept for {keep_days} days")
    for name, report in reports.items():
        if report is None:
            return Limit(None, f"{name} was never verified, or not by this version: verify it first")
        if not report.ok:
            return Limit(None, f"the last verification of {name} found a promise broken: mend that first")
        unread = [file["path"] for file in report.report.get("unverified", ()) if file["side"] == "foreign"]
        if unread:  # what they had registered may have no row, and nobody can tell which ids that are
            return Limit(
                None, f"foreign logs of {name} can't be verified, such as {unread[0]}: put them back"
            )
        verified_us = report.report.get("verified_until_us")
        if verified_us is None:
            return Limit(None, f"the last verification of {name} read no event: verify it again")
        assert allowed.boundary_us is not None
        if verified_us < allowed.boundary_us:
            allowed = Limit(verified_us, f"{name} is verified up to there")
    return allowed


def that_count(datacenters: Iterable[str], epochs: Iterable[EpochRecord]) -> list[str]:
    """The datacenters that have to be verified: one that is lost for good (protocol E2) is not waited for."""
    states: dict[str, set[str]] = {}
    for epoch in epochs:
        states.setdefault(epoch.datacenter, set()).add(epoch.state)
    return [name for name in datacenters if states.get(name) != {"retired"}]


def collect(pipeline: Pipeline, clock: Clock) -> Collected:
    """Raise the boundary as far as may be, and delete what is below it at every endpoint that answers.

    Joins may run meanwhile, and another collection too. One that was ended anywhere is simply run again.
    RegistryUnavailable, LakeUnavailable, and what `find_registry` raises.
    """
    address = find_registry(pipeline)
    registry = open_registry(address)
    register = registry.register.read()
    names = that_count(pipeline.datacenters, register.epochs.values())
    stored = newest(pipeline, names)
    allowed = limit(clock.now_us(), pipeline.registry.keep_days, {name: stored.get(name) for name in names})
    before_us = register.boundary_us
    if pipeline.registry.keep_days is None or (allowed.boundary_us is None and before_us is None):
        return Collected(before_us, before_us, allowed.because, {})
    if allowed.boundary_us is not None:
        register = raise_boundary(registry, allowed.boundary_us)
    # With time_in_id every id carries its time, with a codec only those of its form.
    with_fixed = not pipeline.foreign.time_in_id
    swept = sweep(registry, register, pipeline.registry.collection, clock, with_fixed=with_fixed)
    return Collected(before_us, register.boundary_us, allowed.because, _by_endpoint(address, swept))


def _by_endpoint(address: RegistryAddress, swept: Iterable[Swept]) -> dict[str, Swept]:
    return {str(address.endpoints[one.slot]): one for one in swept}


def _swept(one: Swept) -> dict[str, Any]:
    sizes = {"before": one.before, "deleted": one.deleted, "after": one.after}
    told = {
        f"{what}_{name}": None if size is None else getattr(size, what)
        for name, size in sizes.items()
        for what in ("items", "bytes")
    }
    return {**told, "problem": one.problem}
