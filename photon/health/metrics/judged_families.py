"""The metrics of what is judged: checks, the newest verification, the error budget. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from photon.health.metrics.families import gauge
from photon.health.metrics.judging import Judged
from photon.process.clock import MICROSECONDS
from photon.verification.report import MEANINGS

LEVELS = {"ok": 0.0, "warn": 1.0, "error": 2.0}
BROKEN = tuple(kind for kind, meaning in MEANINGS.items() if meaning.violation)


def judged_families(found: Mapping[str, Judged]) -> Iterator[Metric]:
    """Every metric; of a datacenter that was never verified, or has no minute judged, those are left out."""
    yield gauge(
        "check_level",
        "What each check says of it: 0 well, 1 warning, 2 error.",
        [
            ((name, check), LEVELS[level])
            for name, one in found.items()
            for check, level in one.levels.items()
        ],
        "check",
    )
    verified = {name: one.verified for name, one in found.items() if one.verified is not None}
    yield gauge(
        "verified_timestamp_seconds",
        "When the newest verification was stored.",
        [((name,), one.at_us / MICROSECONDS) for name, one in verified.items()],
    )
    yield gauge(
        "verified_cases",
        "Cases of broken promises in the newest verification, by kind.",
        [
            ((name, kind), float(count))
            for name, one in verified.items()
            for kind, count in _cases(one.report).items()
        ],
        "kind",
    )
    budgets = {name: one.budget for name, one in found.items() if one.budget is not None}
    yield gauge(
        "error_budget_minutes",
        "Minutes of 28 days in which too few events are readable in time: allowed, and bad.",
        [
            ((name, of), float(minutes))
            for name, one in budgets.items()
            for of, minutes in (("allowed", one.allowed), ("bad", one.bad))
        ],
        "of",
    )
    yield gauge(
        "error_budget_burning",
        "Whether the error budget is used up too fast.",
        [((name,), float(bool(one.burning))) for name, one in budgets.items()],
    )


def _cases(report: Mapping[str, Any]) -> dict[str, int]:
    """The cases of each kind in a stored report."""
    return dict.fromkeys(BROKEN, 0) | {one["kind"]: one["count"] for one in report["violations"]}
