"""How long an asset may go without a materialization: Dagster's freshness policies.

A policy is of a whole asset. What one datacenter of several does not do is told by its checks of `health`.
"""

from __future__ import annotations

from datetime import timedelta

from dagster import FreshnessPolicy

from photon.pipeline.sections import Durations

LEAST = timedelta(minutes=1)  # Dagster refuses a shorter one


def freshness(limits: Durations) -> FreshnessPolicy:
    """The policy of an asset that warns and fails at these ages; a warning that is no sooner is left out."""
    error, warn = max(limits.error, LEAST), max(limits.warn, LEAST)
    return FreshnessPolicy.time_window(fail_window=error, warn_window=warn if warn < error else None)
