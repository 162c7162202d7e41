"""The judge of a registry: a pure function of its state. That of datacenters is `photon.health.judge`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from photon.health.verdict import Level, Measure, Verdict, level_of, passing
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Shares
from photon.process.errors import UserError
from photon.process.pages import page
from photon.registry.errors import RegistryMissing, RegistryUnavailable
from photon.registry.opening import GRACE_SECONDS
from photon.registry.stores.decisions import majority

if TYPE_CHECKING:  # importing it takes long, and Dagster loads what only shows its verdicts
    from photon.upkeep.registry_state import RegistryState

ENDPOINTS = "endpoints_up"
LEDGERS = "ledgers_bear_their_load"
REGISTRY_PROMISES = {
    ENDPOINTS: "Every endpoint answers, takes writes and is in use.",
    LEDGERS: "No ledger takes nearly as many bytes a second as one key range of the store bears.",
}
# An endpoint is not well, and fewer than so many more may go down: an error. One more stops every join.
SPARE_ENDPOINTS = 1
# From which share of what a key range bears the busiest ledger is a warning, and an error: what is beyond is
# throttled.
LEDGER_LOAD = Shares(warn=0.8, error=1.0)
BRING_BACK = "bring it back with its data, or make room there"


def judge_registry(state: RegistryState, pipeline: Pipeline) -> dict[str, Verdict]:
    """The verdict on each of its promises."""
    return {ENDPOINTS: _endpoints(state, pipeline), LEDGERS: _ledgers(state, pipeline)}


def in_words(verdicts: Iterable[Verdict]) -> str:
    """Say why a registry needs somebody, by these verdicts on it; empty: it does not."""
    return "; ".join(one.says for one in verdicts if one.level == "error")


def judge_unavailable(error: RegistryUnavailable) -> dict[str, Verdict]:
    """The verdict where too few endpoints answer: of its ledgers nothing is known."""
    return {ENDPOINTS: passing("error", str(error).removesuffix("."), BRING_BACK)}


def ask_endpoints(pipeline: Pipeline, seconds: float) -> Verdict:
    """The verdict on the endpoints alone; a minority has so long to answer. UserError, OSError."""
    from photon.upkeep.registry_state import registry_state  # late: a location loads without it

    try:
        return _endpoints(registry_state(pipeline, seconds, endpoints_only=True), pipeline)
    except RegistryUnavailable as error:
        return judge_unavailable(error)[ENDPOINTS]


def look_at_endpoints(pipeline: Pipeline) -> Verdict:
    """As `ask_endpoints`, with little patience; whatever keeps it from asking is the verdict."""
    try:
        return ask_endpoints(pipeline, GRACE_SECONDS)
    except RegistryMissing:  # where somebody has joined before, the decisions are refused because of it
        return Verdict("ok", "There is no registry yet: the first join makes it")
    except (UserError, OSError) as error:
        return Verdict("error", str(error))


def _endpoints(state: RegistryState, pipeline: Pipeline) -> Verdict:
    """A warning if any endpoint is not well; an error if fewer than `SPARE_ENDPOINTS` may go then."""
    endpoints = len(state.endpoints)
    unwell = [one for one in state.endpoints if one.health != "up"]
    may_be_unwell = endpoints - majority(endpoints)
    bad = max(1, may_be_unwell - SPARE_ENDPOINTS + 1)
    measures = (Measure("unwell_endpoints", len(unwell), 1, bad),)
    if not unwell:
        return Verdict("ok", f"All {endpoints} answer and take writes", measures=measures)
    spare = may_be_unwell - len(unwell)
    says = "; ".join(f"{one.endpoint}: {one.health} ({one.problem})" for one in unwell)
    may_go = f"{spare} more may go down" if spare >= 0 else "No id can be registered"
    lost = [f"photon registry repair {pipeline.typed} --endpoint {one.endpoint}" for one in unwell]
    remedy = f"{BRING_BACK}; if its data is lost: {'; '.join(lost)} ({page('docs/operations/registry.md')})"
    level: Level = "error" if spare < SPARE_ENDPOINTS else "warn"
    return passing(level, f"{says}. {may_go}", remedy, measures=measures)


def _ledgers(state: RegistryState, pipeline: Pipeline) -> Verdict:
    """A warning if a ledger takes nearly as much as one key range bears, an error beyond."""
    load = state.ledger_load
    measures = (
        ()
        if load is None
        else (Measure("busiest_load", round(load, 3), LEDGER_LOAD.warn, LEDGER_LOAD.error),)
    )
    level = "ok" if load is None else level_of(load, LEDGER_LOAD.warn, LEDGER_LOAD.error)
    if load is None and state.has_key_ranges:
        return Verdict("ok", "How much its ledgers take in a second was not measured")
    if level == "ok":
        return Verdict("ok", "No ledger is near the limit of a key range", measures=measures)
    twice = 2 * state.register.generations[-1].ledgers
    return Verdict(
        level,
        f"The busiest ledger takes {load:.0%} of the bytes a second that AWS writes of one key range; "
        "what is beyond is throttled",
        f"photon registry reshard {pipeline.typed} {twice} makes twice as many, from then on",
        measures=measures,
    )
