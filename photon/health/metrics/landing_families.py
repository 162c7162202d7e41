"""The metrics of what datacenters land: how much waits, for how long, and what is lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from photon.health.metrics.families import gauge
from photon.health.status import DatacenterStatus
from photon.process.clock import MICROSECONDS


def landing_families(known: Mapping[str, DatacenterStatus]) -> Iterator[Metric]:
    """A number of each source that a datacenter lands; `source` is what the folder of its files is called."""
    seen = [((name, one.into), one) for name, status in known.items() for one in status.facts.landing]
    yield gauge(
        "landing_lag_messages",
        "Offsets that are not landed, by partition; those of a high number are added up.",
        [((*labels, part), lag) for labels, one in seen for part, lag in one.lag_by_part.items()],
        "source",
        "partition",
    )
    yield gauge(
        "landing_behind_seconds",
        "For how long at most what a broker has acknowledged is not landed.",
        [(labels, us / MICROSECONDS) for labels, one in seen if (us := one.behind_us) is not None],
        "source",
    )
    yield gauge(
        "landing_open_losses",
        "Losses that nobody has acknowledged, each of which has a partition stand still.",
        [(labels, float(one.losses)) for labels, one in seen],
        "source",
    )
    yield gauge(
        "landing_silent_seconds",
        "For how long nobody has said how far the source is landed.",
        [(labels, us / MICROSECONDS) for labels, one in seen if (us := one.silent_us) is not None],
        "source",
    )
