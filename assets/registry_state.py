"""The state of a registry as Dagster shows it: numbers, tables, a picture, and its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from dagster import AssetCheckResult, MetadataValue

if TYPE_CHECKING:
    from photon.upkeep.registry_state import EndpointState, RegistryState

from photon.assets.health import SEVERITY, verdict_metadata
from photon.assets.pictures import ledgers_plot
from photon.assets.runbook import section
from photon.assets.runs import Metadata, Row, table
from photon.health.verdict import Verdict
from photon.pipeline.file import Pipeline
from photon.process.clock import in_utc

# A report is stored every hour: with 100 rows a table is 20 KB.
MOST_ROWS = 100


def checks_of(verdicts: Mapping[str, Verdict], pipeline: Pipeline) -> list[AssetCheckResult]:
    """The verdicts on a registry as results of its checks."""
    return [
        AssetCheckResult(
            check_name=promise,
            passed=verdict.level == "ok",
            severity=SEVERITY[verdict.level],
            description=verdict.text,
            metadata={**verdict_metadata(verdict), **section(promise, pipeline)},
        )
        for promise, verdict in verdicts.items()
    ]


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
    """One endpoint. It counts its bytes itself; on AWS that count is hours old."""
    return {name: "" if value is None else value for name, value in asdict(one).items()}


def _epoch_rows(state: RegistryState) -> list[Row]:
    return [asdict(epoch) for epoch in state.epochs[-MOST_ROWS:]]


def _ledger_rows(state: RegistryState) -> list[Row]:
    """The newest ledgers first."""
    return [
        {**asdict(one), "boundary_us": _time(one.boundary_us)} for one in reversed(state.ledgers[-MOST_ROWS:])
    ]


def _time(at_us: int | None) -> str:
    return "" if at_us is None else in_utc(at_us, "seconds")
