"""The state of a registry as Dagster shows it: numbers, tables, a picture, and a check of the endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from dagster import AssetCheckResult, AssetCheckSeverity, MetadataValue

from assets.pictures import shards_plot
from assets.runbook import with_section
from assets.runs import Metadata, Row, table
from photon.clock import in_utc
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.file import Pipeline
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.layout import FIXED_SHARDS
from photon.registry.consensus.register import Register, ShardConfig
from photon.registry.operations.report import (
    HOT_SHARDS,
    KINDS,
    EndpointState,
    RegistryState,
    ShardState,
    how_to_reshard,
)

ENDPOINTS_CHECK = "endpoints_up"
SHARDS_CHECK = "shards_bear_their_load"
BRING_BACK = "bring it back with its data, or make room there"
# A report is stored every hour: with 100 rows a table is 20 KB.
MOST_ROWS = 100
NUMBERS = ("ids", "key_bytes", "value_bytes", *KINDS)


def checks_of(state: RegistryState, pipeline: Pipeline) -> list[AssetCheckResult]:
    """All checks of a registry, by the thresholds of the pipeline file."""
    checks = [
        endpoints_check(state, pipeline),
        shards_check(state, pipeline),
    ]
    return [with_section(pipeline.links, one) for one in checks]


def endpoints_check(state: RegistryState, pipeline: Pipeline) -> AssetCheckResult:
    """A warning if any endpoint is not well; an error if fewer than `health.spare_endpoints` may go then."""
    n, least_spare = len(state.endpoints), pipeline.health.spare_endpoints
    unwell = [one for one in state.endpoints if one.health != "up"]
    if not unwell:
        said = f"All {n} answer and take writes."
        return AssetCheckResult(
            check_name=ENDPOINTS_CHECK, passed=True, description=said, metadata={"unwell": 0}
        )
    spare = n - len(unwell) - majority(n)
    says = "; ".join(f"{one.endpoint}: {one.health} ({one.problem})" for one in unwell)
    lost = [f"photon registry repair {pipeline.typed} --endpoint {one.endpoint}" for one in unwell]
    remedy = f"{BRING_BACK}; if its data is lost: {'; '.join(lost)} (docs/operations.md)"
    may_go = f"{spare} more may go down" if spare >= 0 else "No id can be registered"
    return AssetCheckResult(
        check_name=ENDPOINTS_CHECK,
        passed=False,
        severity=AssetCheckSeverity.ERROR if spare < least_spare else AssetCheckSeverity.WARN,
        description=f"{says}. {may_go}. What to do: {remedy}",
        metadata={"unwell": len(unwell), "what_to_do": remedy},
    )


def unavailable(error: RegistryUnavailable, pipeline: Pipeline) -> AssetCheckResult:
    """The endpoints' check where too few of them answer."""
    result = AssetCheckResult(
        check_name=ENDPOINTS_CHECK,
        passed=False,
        severity=AssetCheckSeverity.ERROR,
        description=str(error),
        metadata={"what_to_do": BRING_BACK},
    )
    return with_section(pipeline.links, result)


def shards_check(state: RegistryState, pipeline: Pipeline) -> AssetCheckResult:
    """A warning if shards take nearly as many ids as one key range bears, an error beyond."""
    bounds = pipeline.health.shard_load
    load = state.shard_load
    metadata: Metadata = {} if state.shard_rate is None else {"shard_rate": round(state.shard_rate, 3)}
    if load is None or load < bounds.warn:
        said = "No shard is near the limit of a key range."
        return AssetCheckResult(check_name=SHARDS_CHECK, passed=True, description=said, metadata=metadata)
    remedy = how_to_reshard(state, pipeline)
    return AssetCheckResult(
        check_name=SHARDS_CHECK,
        passed=False,
        severity=AssetCheckSeverity.ERROR if load >= bounds.error else AssetCheckSeverity.WARN,
        description=f"{HOT_SHARDS}. What to do: {remedy}",
        metadata={**metadata, "what_to_do": remedy},
    )


def state_metadata(state: RegistryState) -> Metadata:
    """Metadata of a registry's state; `looked_at` says whether the numbers are those of a sample."""
    epochs, shards = _epoch_rows(state.register), _shard_rows(state.shards)
    metadata: Metadata = {
        **{name: state.total(name) for name in NUMBERS},
        "shards": state.shards_in_all,
        "looked_at": state.coverage,
        "endpoints_up": sum(one.health == "up" for one in state.endpoints),
        "endpoints": table([_endpoint_row(one) for one in state.endpoints]),
        "epochs": table(epochs) if epochs else "none",
        "shard_configs": table(_config_rows(state)),
        "shards_by_size": table(shards) if shards else "none",
    }
    for one in state.endpoints:
        row = _endpoint_row(one) if one.answers else {}
        numbers = {name: row[name] for name in ("read_ms", "bytes", "behind") if row.get(name, "") != ""}
        metadata |= {f"endpoint_{one.number}_{name}": value for name, value in numbers.items()}
    if state.total("ids"):
        metadata["shards_picture"] = MetadataValue.md(shards_plot(state.shards))
    return metadata


def _endpoint_row(one: EndpointState) -> Row:
    """One endpoint; items and bytes are by its own count, on AWS hours old."""
    values = {**asdict(one), "behind": one.behind}
    return {name: "" if value is None else value for name, value in values.items()}


def _epoch_rows(register: Register) -> list[Row]:
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


def _config_rows(state: RegistryState) -> list[Row]:
    """When each shard config counts, and what is in its shards. The last one has the ids without a time."""
    configs = {str(number): config for number, config in enumerate(state.register.configs)}
    rows: list[Row] = []
    for name, config in {**configs, "fixed": ShardConfig(FIXED_SHARDS)}.items():
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


def _shard_rows(shards: Sequence[ShardState]) -> list[Row]:
    fullest_first = sorted(shards, key=lambda shard: (-shard.ids, shard.shard))
    return [
        {
            "shard": one.shard,
            **{name: getattr(one, name) for name in NUMBERS},
            "boundary": _time(one.boundary_us),
            "whole": "yes" if one.whole else "no",
        }
        for one in fullest_first[:MOST_ROWS]
    ]


def _time(at_us: int | None) -> str:
    return "" if at_us is None else in_utc(at_us, "seconds").replace("T", " ")
