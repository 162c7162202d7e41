"""The state of a registry as Dagster shows it: numbers, tables, a picture, and a check of the endpoints."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from dagster import AssetCheckResult, AssetCheckSeverity, MetadataValue

if TYPE_CHECKING:
    from photon.upkeep.registry_state import EndpointState, RegistryState

from assets.pictures import ledgers_plot
from assets.runbook import with_section
from assets.runs import Metadata, Row, table
from photon.pipeline.file import Pipeline
from photon.process.clock import in_utc
from photon.registry.errors import RegistryUnavailable
from photon.registry.stores.decisions import majority

ENDPOINTS_CHECK = "endpoints_up"
LEDGERS_CHECK = "ledgers_bear_their_load"
BRING_BACK = "bring it back with its data, or make room there"
# A report is stored every hour: with 100 rows a table is 20 KB.
MOST_ROWS = 100


def checks_of(state: RegistryState, pipeline: Pipeline) -> list[AssetCheckResult]:
    """All checks of a registry, by the thresholds of the pipeline file."""
    checks = [
        endpoints_check(state, pipeline),
        ledgers_check(state, pipeline),
    ]
    return [with_section(pipeline.links, one) for one in checks]


def endpoints_check(state: RegistryState, pipeline: Pipeline) -> AssetCheckResult:
    """A warning if any endpoint is not well; an error if fewer than `SPARE_ENDPOINTS` may go then."""
    from photon.upkeep.registry_state import SPARE_ENDPOINTS

    n = len(state.endpoints)
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
        severity=AssetCheckSeverity.ERROR if spare < SPARE_ENDPOINTS else AssetCheckSeverity.WARN,
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


def ledgers_check(state: RegistryState, pipeline: Pipeline) -> AssetCheckResult:
    """A warning if a ledger takes nearly as much as one key range bears, an error beyond."""
    from photon.upkeep.registry_state import LEDGER_LOAD, how_to_reshard

    bounds, load = LEDGER_LOAD, state.ledger_load
    metadata: Metadata = {} if load is None else {"ledger_load": round(load, 3)}
    if load is None or load < bounds.warn:
        said = "No ledger is near the limit of a key range."
        return AssetCheckResult(check_name=LEDGERS_CHECK, passed=True, description=said, metadata=metadata)
    remedy = how_to_reshard(state, pipeline)
    return AssetCheckResult(
        check_name=LEDGERS_CHECK,
        passed=False,
        severity=AssetCheckSeverity.ERROR if load >= bounds.error else AssetCheckSeverity.WARN,
        description=(
            f"The busiest ledger takes {load:.0%} of the bytes a second that AWS writes of one key range;"
            f" what is beyond is throttled. What to do: {remedy}"
        ),
        metadata={**metadata, "what_to_do": remedy},
    )


def state_metadata(state: RegistryState) -> Metadata:
    """Metadata of a registry's state: numbers that plot, and tables of what they are made of."""
    epochs, ledgers = _epoch_rows(state), _ledger_rows(state)
    metadata: Metadata = {
        **asdict(state.size),
        "boundary": _time(state.boundary_us) or "none",
        "endpoints_up": sum(one.health == "up" for one in state.endpoints),
        "endpoints": table([_endpoint_row(one) for one in state.endpoints]),
        "epochs": table(epochs) if epochs else "none",
        "newest_ledgers": table(ledgers) if ledgers else "none",
    }
    for one in state.endpoints:
        row = _endpoint_row(one) if one.answers else {}
        numbers = {name: row[name] for name in ("read_ms", "bytes", "behind") if row.get(name, "") != ""}
        metadata |= {f"endpoint_{one.number}_{name}": value for name, value in numbers.items()}
    if state.bytes_per_second is not None:
        metadata["bytes_per_second_of_busiest"] = round(state.bytes_per_second, 3)
    if state.size.ids:
        metadata["ledgers_picture"] = MetadataValue.md(ledgers_plot(state.ledgers[-MOST_ROWS:]))
    return metadata


def _endpoint_row(one: EndpointState) -> Row:
    """One endpoint; bytes are by its own count, on AWS hours old."""
    return {name: "" if value is None else value for name, value in asdict(one).items()}


def _epoch_rows(state: RegistryState) -> list[Row]:
    return [asdict(epoch) for epoch in state.epochs[-MOST_ROWS:]]


def _ledger_rows(state: RegistryState) -> list[Row]:
    """The newest ledgers first."""
    return [
        {**asdict(one), "boundary_us": _time(one.boundary_us)} for one in reversed(state.ledgers[-MOST_ROWS:])
    ]


def _time(at_us: int | None) -> str:
    return "" if at_us is None else in_utc(at_us, "seconds").replace("T", " ")
