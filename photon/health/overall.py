"""Whether a whole pipeline is well, in one sentence: of the verdicts on its datacenters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from photon.health.levels import Verdict
from photon.health.memory import Memory
from photon.health.verdicts import judge
from photon.health.vitals import look
from photon.pipeline.file import Pipeline
from photon.shift.people import Decisions
from photon.shift.standing import standing_of
from photon.shift.status import DatacenterStatus

Verdicts = Mapping[str, Verdict]  # by promise
SAID_BY_ITS_HEADLINE = ("works", "waiting")


def judge_now(pipeline: Pipeline, datacenter: str, now_us: int, decisions: Decisions) -> Verdicts:
    """The verdicts on a datacenter for a person who looks once. OSError, FormatTooNew."""
    found = look(pipeline, datacenter, now_us, decisions=decisions)
    return judge(datacenter, found, Memory.of_one_look(found, pipeline), pipeline)


def needs(one: DatacenterStatus, verdicts: Verdicts) -> list[str]:
    """Why somebody has to look at a datacenter, in a few words each; none: it is well."""
    bad = {name: verdict for name, verdict in verdicts.items() if verdict.level != "ok"}
    if one.epoch is None and "works" in bad:  # a new one's only problem may be that it is new
        bad = {"works": bad["works"]}
    reasons = [verdict.in_short or f"fails {name}" for name, verdict in bad.items()]
    if one.problems and not reasons and one.epoch is not None:
        reasons.append(f"has {len(one.problems):,} problems" if len(one.problems) > 1 else "has a problem")
    return reasons


def overall(
    found: Mapping[str, DatacenterStatus],
    verdicts: Mapping[str, Verdicts],
    unknown: Collection[str],
    now_us: int,
    registry_is_unknown: bool = False,
) -> str:
    """One sentence on the whole pipeline. `unknown`: who could not be asked."""
    reasons = {name: ["can't be asked"] for name in unknown}
    reasons |= {name: why for name, one in found.items() if (why := needs(one, verdicts[name]))}
    well = ", ".join(
        f"{name} is {standing_of(one, now_us)}" for name, one in found.items() if name not in reasons
    )
    if reasons:
        verb = "needs" if len(reasons) == 1 else "need"
        of_all = f"{len(reasons)} of {len(found) + len(unknown)} datacenters {verb} somebody"
        well = f"{of_all}: " + "; ".join(f"{name} {' and '.join(why)}" for name, why in reasons.items())
    elif not registry_is_unknown:
        return f"All is well: {well}"
    return f"The registry needs somebody: it could not be asked; {well}" if registry_is_unknown else well


def what_to_do(datacenter: str, one: DatacenterStatus, verdicts: Verdicts) -> list[str]:
    """What each promise that is not kept asks for, where its headline and its problems don't say it."""
    said = {*SAID_BY_ITS_HEADLINE, *(("logs",) if one.problems or one.epoch is None else ())}
    return [
        f"NEEDS YOU: {verdict.text.removeprefix(datacenter).lstrip(',: ')}"
        for name, verdict in verdicts.items()
        if verdict.level != "ok" and name not in said
    ]
