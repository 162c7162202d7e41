"""A shift's report as the metadata of a materialization: numbers that Dagster plots, the equation, a picture.

Stored once a minute for each datacenter: what is added here is added 2,880 times a day with two of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagster import MetadataValue

from assets.latency_plot import latency_plot
from photon.join.outcomes import OUTCOME_CLASSES, Counts
from photon.shift.growth import Growth
from photon.shift.report import ShiftReport, Totals


def metadata_of(
    reports: Sequence[ShiftReport], totals: Totals, growth: Growth, with_picture: bool
) -> dict[str, MetadataValue]:
    """Metadata of the latest of a shift's reports; the picture, where it is asked for, is of all of them."""
    latest = reports[-1]
    counts = totals.counts
    metadata: dict[str, MetadataValue] = {
        "foreign": MetadataValue.int(counts.foreign),
        **{name: MetadataValue.int(counts.of(name)) for name in OUTCOME_CLASSES},
        "primary": MetadataValue.int(counts.primary),
        "joined_since_last_report": MetadataValue.int(latest.joined),
        "joined_per_second": MetadataValue.float(round(latest.joined_per_second, 2)),
        "batches_since_last_report": MetadataValue.int(latest.batches),
        "read_bytes": MetadataValue.int(_bytes(growth) - _unread_bytes(growth)),
        "backlog_bytes": MetadataValue.int(_unread_bytes(growth)),
        "epoch": MetadataValue.text(totals.epoch),
        "batch": MetadataValue.int(totals.batch),
        "equation": MetadataValue.md(equation(counts)),
    }
    if growth.lag_seconds is not None:
        metadata["lag_seconds"] = MetadataValue.float(round(growth.lag_seconds, 3))
    if latest.latency is not None:
        metadata["latency_p50_seconds"] = MetadataValue.float(round(latest.latency.p50_seconds, 3))
        metadata["latency_p90_seconds"] = MetadataValue.float(round(latest.latency.p90_seconds, 3))
        metadata["latency_p99_seconds"] = MetadataValue.float(round(latest.latency.p99_seconds, 3))
    picture = latency_plot(reports) if with_picture else None
    if picture is not None:
        metadata["latency"] = MetadataValue.md(picture)
    return metadata


def equation(counts: Counts) -> str:
    """Every foreign record is in exactly one class: a Markdown table whose rows add up to its last."""
    rows = [(name.replace("_", " "), counts.of(name)) for name in OUTCOME_CLASSES]
    lines = [f"|{name}|{count:,}|" for name, count in rows if count]
    return "\n".join(["|class|records|", "|-|-:|", *lines, f"|**foreign**|**{counts.foreign:,}**|"])


def _bytes(growth: Growth) -> int:
    return growth.primary.bytes + growth.foreign.bytes


def _unread_bytes(growth: Growth) -> int:
    return growth.primary.unread_bytes + growth.foreign.unread_bytes
