"""A look at all datacenters of a pipeline, and one sentence on the whole of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from photon.dispatcher.shift.people import Decisions
from photon.health.status import DatacenterStatus, status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.errors import UserError
from photon.process.in_time import NotInTime, Question
from photon.process.readable import counted

FOLDER_SECONDS = 0.3  # a folder that takes longer to be listed is taken for one that hangs


def look_at_all(
    pipeline: Pipeline, clock: Clock, decisions: Decisions, seconds: float
) -> tuple[dict[str, DatacenterStatus], dict[str, Exception]]:
    """The datacenters, and why some can't be asked. One that hangs for so long keeps no other back."""
    asked = {
        name: Question(partial(status_of, pipeline, name, clock, decisions)) for name in pipeline.datacenters
    }
    found, errors = dict[str, DatacenterStatus](), dict[str, Exception]()
    for name, question in asked.items():
        try:
            found[name] = question.answer(seconds, while_working=True)
        except NotInTime as error:
            errors[name] = NotInTime(f"datacenter {name}: {error}; {_hanging(pipeline, name)}")
        except (UserError, OSError) as error:
            errors[name] = error
    return found, errors


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


def overall(found: Mapping[str, DatacenterStatus], unknown: Collection[str], of_registry: str = "") -> str:
    """One sentence on the whole pipeline. `of_registry`: why that needs somebody, too.

    `unknown`: the datacenters that could not be asked.
    """
    reasons = {name: ["can't be asked"] for name in unknown}
    reasons |= {name: why for name, one in found.items() if (why := one.needs_somebody)}
    well = ", ".join(f"{name} is {one.facts.activity}" for name, one in found.items() if name not in reasons)
    if reasons:
        verb = "needs" if len(reasons) == 1 else "need"
        of_all = f"{len(reasons)} of {counted(len(found) + len(unknown), 'datacenter')} {verb} somebody"
        well = f"{of_all}: " + "; ".join(f"{name} {_in_one_clause(why)}" for name, why in reasons.items())
    elif not of_registry:
        return f"All is well: {well}"
    return f"The registry needs somebody: {of_registry}; {well}" if of_registry else well


def _in_one_clause(reasons: Sequence[str]) -> str:
    """The reasons, with what several begin with said once: "has bad records (these; those)"."""
    details: dict[str, list[str]] = {}
    for reason in reasons:
        begins, bracket, detail = reason.partition(" (")
        details.setdefault(begins, []).extend([detail.removesuffix(")")] * bool(bracket))
    return " and ".join(
        f"{begins} ({'; '.join(some)})" if some else begins for begins, some in details.items()
    )
