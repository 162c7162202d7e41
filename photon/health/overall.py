"""Whether a whole pipeline is well, in one sentence: of the verdicts on its datacenters."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from photon.dispatcher.shift.people import Decisions
from photon.dispatcher.shift.status import DatacenterStatus, status_of
from photon.errors import UserError
from photon.health.activity import activity_of, facts_of
from photon.health.levels import Verdict
from photon.health.memory import Memory
from photon.health.verdicts import judge
from photon.health.vitals import look
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.in_time import NotInTime, Question

Verdicts = Mapping[str, Verdict]  # by promise
FOLDER_SECONDS = 0.3  # a folder that takes longer to be listed is taken for one that hangs
SAID_BY_ITS_HEADLINE = ("works", "waiting")


def judge_now(pipeline: Pipeline, datacenter: str, now_us: int, decisions: Decisions) -> Verdicts:
    """The verdicts on a datacenter for a person who looks once. OSError, FormatTooNew."""
    found = look(pipeline, datacenter, now_us, decisions=decisions)
    return judge(datacenter, found, Memory.of_one_look(found, pipeline), pipeline)


@dataclass(frozen=True)
class Seen:
    """All that is known of a pipeline's datacenters, and why some can't be asked."""

    found: Mapping[str, DatacenterStatus]
    verdicts: Mapping[str, Verdicts]
    errors: Mapping[str, Exception]


def look_at_all(pipeline: Pipeline, clock: Clock, decisions: Decisions, seconds: float) -> Seen:
    """Look at all datacenters at once. One that can't be asked, or hangs for so long, keeps no other back."""

    def look_at(name: str) -> tuple[DatacenterStatus, Verdicts]:
        one = status_of(pipeline, name, clock, decisions)
        return one, judge_now(pipeline, name, clock.now_us(), decisions)

    asked = {name: Question(partial(look_at, name)) for name in pipeline.datacenters}
    found, verdicts = dict[str, DatacenterStatus](), dict[str, Verdicts]()
    errors = dict[str, Exception]()
    for name, question in asked.items():
        try:
            found[name], verdicts[name] = question.answer(seconds, while_working=True)
        except NotInTime as error:
            errors[name] = NotInTime(f"datacenter {name}: {error}; {_hanging(pipeline, name)}")
        except (UserError, OSError) as error:
            errors[name] = error
    return Seen(found, verdicts, errors)


def _hanging(pipeline: Pipeline, datacenter: str) -> str:
    """Which folders of a datacenter do not answer, and what to do about them; stores can't be tried so."""
    place = pipeline.datacenters[datacenter]
    asked = {
        folder: Question(partial(os.listdir, folder)) if isinstance(folder, Path) else None
        for folder in (place.state, place.logs, place.lake)
    }
    hangs = [str(folder) for folder, question in asked.items() if question is None or not _answers(question)]
    named = " or ".join(hangs) or f"something below {place.state}, {place.logs} or {place.lake}"
    return f"{named} does not answer: look at its disk, mount or store"


def _answers(question: Question[list[str]]) -> bool:
    with suppress(OSError):
        try:
            question.answer(FOLDER_SECONDS)
        except NotInTime:
            return False
    return True


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
        f"{name} is {activity_of(facts_of(one, now_us))}"
        for name, one in found.items()
        if name not in reasons
    )
    if reasons:
        verb = "needs" if len(reasons) == 1 else "need"
        of_all = f"{len(reasons)} of {len(found) + len(unknown)} datacenters {verb} somebody"
        well = f"{of_all}: " + "; ".join(f"{name} {' and '.join(why)}" for name, why in reasons.items())
    elif not registry_is_unknown:
        return f"All is well: {well}"
    return f"The registry needs somebody: it could not be asked; {well}" if registry_is_unknown else well


def what_to_do(datacenter: str, one: DatacenterStatus, verdicts: Verdicts) -> list[str]:
    """Name the remedy for each broken promise, where headline and problems don't say it."""
    said = {*SAID_BY_ITS_HEADLINE, *(("logs",) if one.problems or one.epoch is None else ())}
    return [
        f"NEEDS YOU: {verdict.text.removeprefix(datacenter).lstrip(',: ')}"
        for name, verdict in verdicts.items()
        if verdict.level != "ok" and name not in said
    ]
