"""How the datacenters are now: the judge's verdicts, the newest point, the records of this epoch by class."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from photon.dispatcher.shift.people import Decisions
from photon.health.at_work import GOES_ON
from photon.health.facts import Activity
from photon.health.headline import headline
from photon.health.judge import Judge
from photon.health.overall import overall
from photon.health.registry import in_words
from photon.health.status import DatacenterStatus, status_of
from photon.health.verdict import Verdict
from photon.page.asking import Shared
from photon.page.points import Points
from photon.page.registry import RegistrySeen
from photon.page.series import newest
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.errors import UserError
from photon.state.points import POINTS

log = logging.getLogger(__name__)
Offered = Callable[[str], list[str]]  # the commands of a sentence that may be copied
LOOK_SECONDS = 2.0  # between two looks, however many browsers are open
FRESH_SECONDS = 30.0  # the page shows no numbers of an older point
ANSWER_SECONDS = 3.0  # a datacenter that takes longer is shown as it was,
STANDS_SECONDS = 10.0  # and after so long as one that can't be asked


class Now:
    """Looks at the datacenters for all viewers, each of them apart: one that hangs keeps no other back."""

    def __init__(
        self,
        pipeline: Pipeline,
        registry: RegistrySeen,
        points: Mapping[str, Points],
        clock: Clock,
        offered: Offered,
    ) -> None:
        self._pipeline, self._registry, self._points, self._clock = pipeline, registry, points, clock
        self._offered = offered
        self._decisions = Decisions()
        self._judge = Judge(pipeline)
        self._looks = {
            name: Shared(f"datacenter {name}", partial(self._look, name), LOOK_SECONDS, clock, STANDS_SECONDS)
            for name in pipeline.datacenters
        }

    async def answer(self) -> dict[str, Any]:
        """The answer of `/api/now`."""
        self._decisions = await self._registry.decisions()
        of_registry = await self._registry.verdicts()
        looks = await asyncio.gather(*map(self._look_in_time, self._looks))
        asked = dict(zip(self._looks, looks, strict=True))
        found = {name: one for name, one in asked.items() if isinstance(one, DatacenterStatus)}
        errors = {name: one for name, one in asked.items() if isinstance(one, Exception)}
        return {
            "pipeline": self._pipeline.name,
            "typed_file": self._pipeline.typed,
            "now_us": self._clock.now_us(),
            "says": overall(found, errors, of_registry=in_words(of_registry.values())),
            "registry": {
                "says": "; ".join(one.says for one in of_registry.values()),
                "verdicts": verdicts_told(
                    {promise: (one,) for promise, one in of_registry.items()}, self._offered
                ),
            },
            "datacenters": [
                {
                    **(
                        told(one, self._pipeline.typed, self._offered)
                        if (one := found.get(name))
                        else not_told(name, errors[name])
                    ),
                    "numbers": await self._numbers(name, found.get(name)),
                }
                for name in asked
            ],
        }

    async def at_work(self, name: str) -> tuple[Activity | Literal["unknown"], int | None]:
        """Who is at work in a datacenter, as the last look has seen, and since when; None: nobody is."""
        one = await self._look_in_time(name)
        if not isinstance(one, DatacenterStatus):
            return "unknown", None
        lease = one.facts.lease.lease
        return one.facts.activity, lease.began_us if lease and one.facts.is_joining else None

    async def _numbers(self, name: str, one: DatacenterStatus | None) -> dict[str, Any]:
        """The numbers of its newest point; of one that nobody runs only how much is unread and waits."""
        recent = POINTS.columns.empty_table()
        if one is not None and one.facts.is_joining:
            with suppress(UserError, OSError):  # a verdict, or why it can't be asked, says more
                recent = await self._points[name].recent()
        return {
            **newest(recent, self._clock.now_us(), FRESH_SECONDS),
            "unread_bytes": one.facts.unread_bytes if one else None,
            "waiting": one.counts.get("pending") if one else None,
        }

    async def _look_in_time(self, name: str) -> DatacenterStatus | Exception:
        try:
            return await self._looks[name].answer(ANSWER_SECONDS)
        except (UserError, OSError) as error:
            return error
        except Exception as error:  # a defect keeps no other datacenter from being shown
            log.exception("datacenter %s can't be looked at", name)
            return error

    def _look(self, name: str) -> DatacenterStatus:
        return status_of(self._pipeline, name, self._clock, self._decisions, self._judge)


def told(one: DatacenterStatus, typed_file: str, offered: Offered) -> dict[str, Any]:
    """A datacenter that was looked at. Who is at work is said as `photon status` does, with what to type.

    That sentence says itself that a wait ends once its cause is mended.
    """
    first = headline(one, typed_file)
    verdicts = {
        promise: tuple(
            replace(each, says=first, remedy="" if each.remedy == GOES_ON else each.remedy)
            if each.is_in_headline
            else each
            for each in found
        )
        for promise, found in one.verdicts.items()
    }
    return {
        "name": one.facts.datacenter,
        "activity": one.facts.activity,
        "says": first,
        "commands": offered(first),
        "is_well": not one.broken,
        "unjudged": one.unjudged,
        "verdicts": verdicts_told(verdicts, offered),
        "classes": one.counts,
        "landing": [seen.sentence() for seen in one.facts.landing],
        "release": one.as_dict()["release"],
        "problem": "",
    }


def not_told(name: str, error: Exception) -> dict[str, Any]:
    """A datacenter that could not be asked."""
    nothing = {
        "activity": "unknown",
        "says": "",
        "commands": [],
        "is_well": False,
        "unjudged": {},
        "verdicts": [],
        "classes": {},
        "landing": [],
        "release": None,
    }
    return {"name": name, **nothing, "problem": str(error)}


def verdicts_told(verdicts: Mapping[str, tuple[Verdict, ...]], offered: Offered) -> list[dict[str, Any]]:
    """Each verdict with its promise and the commands to be copied, those that need somebody first."""
    told = [
        {
            "promise": promise,
            "level": one.level,
            "says": one.says,
            "remedy": one.remedy,
            "commands": list(dict.fromkeys(offered(one.says) + offered(one.remedy))),
        }
        for promise, found in verdicts.items()
        for one in found
    ]
    return sorted(told, key=lambda one: ("error", "warn", "ok").index(one["level"]))
