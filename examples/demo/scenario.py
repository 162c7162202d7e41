"""The course of a demo, as data: its traffic, its pipeline's settings, and its phases.

A phase begins with a deed and ends when what is seen (`Facts`) says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from examples.demo.stories import ILLS, Ill
from examples.demo.traffic import Traffic
from photon.health.status import DatacenterStatus
from photon.process.clock import MICROSECONDS

DATACENTERS = ("east", "west")
VICTIM = "west"  # the datacenter with the shift that is killed
PIPELINE = "demo"

PRIMARY_PER_SECOND = 1_000.0
FOREIGN_PER_SECOND = 50.0
ILL_EVERY_SECONDS = 30.0  # each kind of ill; some 15 kinds make one every two seconds
NEW_FILE_EVERY_SECONDS = 60.0  # each file rolls over or is rotated
LATE_SECONDS = 5.0  # late queries come 5 to 10 s after their clicks

# Clicks cease, queries go on: each click gets its query, and the watermark passes the clicks that get none.
CALM_SECONDS = 2 * LATE_SECONDS + 2
WITHOUT_ENDPOINT_SECONDS = 10.0
AFTERWARDS_SECONDS = 15.0  # both datacenters join again after one of them was replaced
# A datacenter that begins or returns works off what is there; after that a delay is the pipeline's own.
WARM_UP_SECONDS = 10.0
VERIFY_SECONDS = 600.0  # a busy machine took 240 s and was not done

SELDOM, OFTEN = "0 0 1 1 *", "*/5 * * * *"  # when the join is verified: a demo that stays has time for it
# Ills end within the demo: what can't be joined is given up after 15 s; a shift with nothing to do leaves.
# Only the demo itself has the join verified, and no day before it: Spark would be measured too. One click in
# 300 is spoilt on purpose, and that is well here.
SETTINGS = f"""\
retry: {{unjoinable_after: 15s, allowed_lateness: 2s}}
tailing: {{idle_after: 3s}}
shift: {{idle: 5s}}
verification: {{cron: "{SELDOM}"}}
backfill: {{first_look_days: 0}}
health: {{dead_letters: {{warn: 0.02, error: 0.2}}}}
owners: ["team:demo"]
"""

Deed = Literal["kill an endpoint", "start the endpoint", "kill", "calm", "silence", "verify"]


@dataclass(frozen=True)
class Kill:
    """The end of a shift."""

    datacenter: str
    at_us: int
    gone_us: int  # when the process had ended: rows seen later are of its successor


@dataclass(frozen=True)
class Facts:
    """A demo as it is seen at one moment. Times are microseconds since 1970 UTC."""

    now_us: int
    began_us: int  # the phase
    datacenters: Mapping[str, DatacenterStatus]
    newest_row_us: Mapping[str, int]  # when each datacenter's newest row was first seen
    kill: Kill | None = None
    verified: bool = False

    @property
    def seconds(self) -> float:
        """Since the phase began."""
        return (self.now_us - self.began_us) / MICROSECONDS

    def has_joined_since(self, kill: Kill) -> bool:
        """Whether the datacenter whose shift was killed has joined something again."""
        return self.newest_row_us.get(kill.datacenter, 0) > kill.gone_us


@dataclass(frozen=True)
class Phase:
    """A part of the demo.

    One that takes longer than `at_most_seconds` is a failure, or is ended if `may_end`.
    """

    name: str
    says: str
    at_most_seconds: float
    is_over: Callable[[Facts], bool]
    deed: Deed | None = None
    may_end: bool = False


def phases(seconds: float, has_endpoints: bool = False) -> tuple[Phase, ...]:
    """The demo; `seconds`: how long both datacenters join undisturbed."""
    of_endpoints = (
        Phase("endpoint", "two of the registry's three endpoints are enough: both datacenters go on joining",
              WITHOUT_ENDPOINT_SECONDS + 1, lasted(WITHOUT_ENDPOINT_SECONDS), deed="kill an endpoint"),
        Phase("endpoints", "all three endpoints are there again",
              WITHOUT_ENDPOINT_SECONDS + 1, lasted(WITHOUT_ENDPOINT_SECONDS), deed="start the endpoint"),
    )  # fmt: skip
    return (
        Phase("start", "the sensors see the logs grow, and Dagster starts a shift in each datacenter",
              120, all_have_rows),
        Phase("join", "both datacenters join", seconds + 1, lasted(seconds)),
        *(of_endpoints if has_endpoints else ()),
        Phase("kill", f"without {VICTIM}: others take up its half after 2 s, until Dagster has replaced it",
              120, has_returned, deed="kill"),
        Phase("return", "both datacenters join again",
              AFTERWARDS_SECONDS + 1, lasted(AFTERWARDS_SECONDS)),
        Phase("calm", "no more clicks; queries that are late still come",
              CALM_SECONDS + 1, lasted(CALM_SECONDS), deed="calm"),
        Phase("idle", "the traffic has stopped; what waits is joined or given up, and the shifts leave",
              45, all_have_left, deed="silence", may_end=True),
        Phase("verify", "Dagster verifies: every click is classified anew from the raw logs and the tables",
              VERIFY_SECONDS, lambda facts: facts.verified, deed="verify"),
    )  # fmt: skip


def registry_over(urls: Sequence[str]) -> str:
    """The section of the pipeline file for a registry over these endpoints; empty for the local one."""
    listed = ", ".join(f"{{url: {url}}}" for url in urls)
    return f"registry: {{endpoints: [{listed}]}}\n" if urls else ""


def verified_often(settings: str) -> str:
    """The settings of a demo that stays: what somebody does to its tables is found within minutes."""
    return settings.replace(f'cron: "{SELDOM}"', f'cron: "{OFTEN}"')


def stay() -> tuple[Phase, ...]:
    """Traffic and shifts until somebody ends it."""
    return (Phase("stay", "live traffic until Ctrl-C", math.inf, lambda facts: False),)


def traffic(seed: int, duration_seconds: float) -> Traffic:
    """The demo's traffic: steady rates, and each kind of ill every half minute."""

    def times(ill: Ill) -> int:
        every_seconds = NEW_FILE_EVERY_SECONDS if ill.tell is None else ILL_EVERY_SECONDS
        return max(1, round(duration_seconds / every_seconds))

    return Traffic(
        seed=seed, datacenters=DATACENTERS, primary_per_second=PRIMARY_PER_SECOND,
        foreign_per_second=FOREIGN_PER_SECOND, duration_seconds=duration_seconds,
        ills={ill.name: times(ill) for ill in ILLS}, late_seconds=LATE_SECONDS,
    )  # fmt: skip


def lasted(seconds: float) -> Callable[[Facts], bool]:
    """Whether the phase has lasted this long."""
    return lambda facts: facts.seconds >= seconds


def all_have_rows(facts: Facts) -> bool:
    """Whether every datacenter has joined something."""
    return facts.newest_row_us.keys() >= facts.datacenters.keys()


def has_returned(facts: Facts) -> bool:
    """Whether the datacenter whose shift was killed has joined something again."""
    return facts.kill is not None and facts.has_joined_since(facts.kill)


def all_have_left(facts: Facts) -> bool:
    """Whether nothing is left to do anywhere, and no shift runs."""
    return all(is_idle(seen) and seen.facts.process is None for seen in facts.datacenters.values())


def is_idle(seen: DatacenterStatus) -> bool:
    """Whether everything is read and nothing waits."""
    unread_bytes = seen.primary.backlog_bytes + seen.foreign.backlog_bytes
    return not (unread_bytes or sum(seen.waiting.values()) or seen.facts.state.requeued)
