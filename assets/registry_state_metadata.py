"""The state of a registry as Dagster shows it: numbers that it plots, tables, a picture of the shards.

Words, tables and pictures only; what the numbers mean is for `photon.registry.operations.report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dagster import MetadataValue, TableRecord

from assets.pictures import FONT_POINTS, markdown_image, new_figure, plain
from photon.clock import MICROSECONDS
from photon.registry.consensus.layout import FIXED_SHARDS
from photon.registry.consensus.register import Register, ShardConfig
from photon.registry.operations.report import KINDS, EndpointState, RegistryState, ShardState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A report is stored every hour: with 100 rows a table is 20 KB.
MOST_ROWS = 100
SIZE_INCHES = (5.6, 2.6)
COLOURS = 16
KIND_COLOURS: Mapping[str, str] = {
    "held": "#d95f02",
    "cleared": "#1b9e77",
    "tombstones": "#7570b3",
    "promised": "#999999",
}

Cell = str | int | float


def state_metadata(state: RegistryState) -> dict[str, MetadataValue]:
    """Metadata of a look at a registry. Of a sample, numbers are those of the sample, which is said."""
    names = ("ids", "key_bytes", "value_bytes", *KINDS)
    metadata: dict[str, MetadataValue] = {
        **{name: MetadataValue.int(state.total(name)) for name in names},
        "shards": MetadataValue.int(state.shards_in_all),
        "shards_looked_at": MetadataValue.int(len(state.shards)),
        "looked_at": MetadataValue.text(state.looked_at),
        "endpoints_up": MetadataValue.int(sum(one.health == "up" for one in state.endpoints)),
        "endpoints": _table(endpoint_rows(state)),
        "epochs": _table(epoch_rows(state.register)),
        "shard_configs": _table(config_rows(state)),
        "shards_by_size": _table(shard_rows(state)),
        **_by_endpoint([one for one in state.endpoints if one.answers]),
    }
    if state.total("ids"):
        metadata["shards_picture"] = MetadataValue.md(shards_picture(state.shards))
    return metadata


def _by_endpoint(answering: Sequence[EndpointState]) -> dict[str, MetadataValue]:
    """Numbers that Dagster plots over time, by the endpoint's number."""
    metadata: dict[str, MetadataValue] = {}
    for one in answering:
        if one.read_ms is not None:
            metadata[f"endpoint_{one.number}_read_ms"] = MetadataValue.float(round(one.read_ms, 2))
        if one.bytes is not None:
            metadata[f"endpoint_{one.number}_bytes"] = MetadataValue.int(one.bytes)
        metadata[f"endpoint_{one.number}_behind"] = MetadataValue.int(one.behind)
    return metadata


def endpoint_rows(state: RegistryState) -> list[dict[str, Cell]]:
    """A row for each endpoint. Items and bytes are what it counts itself: on AWS hours late."""
    return [
        {
            "endpoint": one.endpoint,
            "health": one.health,
            "read_ms": "" if one.read_ms is None else round(one.read_ms, 2),
            "items": "" if one.items is None else one.items,
            "bytes": "" if one.bytes is None else one.bytes,
            "behind": one.behind,
            "missing": one.missing,
            "older": one.older,
            "uncleared": one.uncleared,
            "table": one.table,
            "problem": one.problem,
        }
        for one in state.endpoints
    ]


def epoch_rows(register: Register) -> list[dict[str, Cell]]:
    """A row for each epoch, the latest first."""
    latest_first = sorted(register.epochs.items(), key=lambda item: -item[1].since_us)
    return [
        {
            "datacenter": record.datacenter,
            "epoch": epoch,
            "state": record.state,
            "since": _time(record.since_us),
            "table": record.table_id,
        }
        for epoch, record in latest_first[:MOST_ROWS]
    ]


def config_rows(state: RegistryState) -> list[dict[str, Cell]]:
    """A row for each shard config: from when to when, how many shards, what is in those looked at.

    The last one is of ids that carry no time.
    """
    without_time = ("fixed", ShardConfig(FIXED_SHARDS))
    configs = [(str(number), config) for number, config in enumerate(state.register.configs)]
    rows: list[dict[str, Cell]] = []
    for name, config in (*configs, without_time):
        shards = [shard for shard in state.shards if shard.shard.startswith(f"{name}-")]
        rows.append(
            {
                "config": name,
                "from": _time(config.start_us),
                "to": _time(config.end_us),
                "shards": config.shards,
                "looked_at": len(shards),
                "ids": sum(shard.ids for shard in shards),
                "bytes": sum(shard.key_bytes + shard.value_bytes for shard in shards),
            }
        )
    return rows[-MOST_ROWS:]


def shard_rows(state: RegistryState) -> list[dict[str, Cell]]:
    """A row for each of the fullest shards."""
    fullest = sorted(state.shards, key=lambda shard: (-shard.ids, shard.shard))
    return [
        {
            "shard": one.shard,
            "ids": one.ids,
            "key_bytes": one.key_bytes,
            "value_bytes": one.value_bytes,
            **{kind: getattr(one, kind) for kind in KINDS},
            "boundary": _time(one.boundary_us),
            "whole": "yes" if one.whole else "no",
        }
        for one in fullest[:MOST_ROWS]
    ]


def shards_picture(shards: Sequence[ShardState]) -> str:
    """What is in each shard, and how many bytes: two plots, one above the other."""
    figure = new_figure(SIZE_INCHES)
    ids, sizes = figure.subplots(2, 1, sharex=True)
    kinds = [(kind, [getattr(one, kind) for one in shards], KIND_COLOURS[kind]) for kind in KINDS]
    _stack(ids, shards, kinds)
    keys, values = [one.key_bytes for one in shards], [one.value_bytes for one in shards]
    _stack(sizes, shards, [("keys", keys, "#a6761d"), ("values", values, "#e6ab02")])
    plain(ids, "", "ids")
    plain(sizes, "shards, in the order of their names", "bytes")
    return markdown_image(figure, "ids and bytes by shard", COLOURS)


def _stack(axes: Axes, shards: Sequence[ShardState], parts: Sequence[tuple[str, list[int], str]]) -> None:
    below = [0] * len(shards)
    for label, heights, colour in parts:
        if any(heights):
            axes.bar(range(len(shards)), heights, 1.0, below, label=label, color=colour, antialiased=False)
        below = [a + b for a, b in zip(below, heights, strict=True)]
    axes.legend(fontsize=FONT_POINTS, loc="lower left", bbox_to_anchor=(0, 0.98), frameon=False, ncols=4)


def _table(rows: Sequence[Mapping[str, Cell]]) -> MetadataValue:
    records = [TableRecord(dict(row)) for row in rows]
    return MetadataValue.table(records) if records else MetadataValue.text("none")


def _time(at_us: int | None) -> str:
    if at_us is None:
        return ""
    try:
        return datetime.fromtimestamp(at_us / MICROSECONDS, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError):
        return f"{at_us} us"
