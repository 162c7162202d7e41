"""A process that uses a registry as a datacenter might, and records every call: one of several that meet.

    python -m tests.contract.registry_client ORDER   (JSON of an `Order`)

Calls are chosen by a seed; ids come from a window that moves on, the same for all clients, so that they
meet. A token says how its plan ended: either its row is in the output (it may be cleared once it has
won, and is never released), or it ended without one (anybody may release it).
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from bench.store_servers import registry_pipeline
from photon.clock import SystemClock
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.opening import close_registries, find_registry, open_registry
from photon.ledger.servers.local_supervisor import ServerKind
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Registry
from photon.registry.address import RegistryAddress
from photon.registry.interface import Claim, Joined, Lost, Won
from photon.registry.quorum.proposer import QuorumRegistry
from tests.simulation.recording import Recorder

BATCH_IDS = 100
OPERATIONS_PER_ID = 25  # of all clients together
WINDOW_IDS = 500
REMEMBERED_TOKENS = 500
FIND_PAUSE_SECONDS = 0.2

WITH_ROW, WITHOUT_ROW = "row", "none"  # how the plan id of a token begins

# A stalled endpoint is given up after the first, a majority that is away after the second.
SETTINGS = Registry(
    request_timeout=timedelta(milliseconds=500),
    total_timeout=timedelta(seconds=3),
)
# Three of DynamoDB Local on two cores take seconds for a request after a start.
PATIENT = Registry(request_timeout=timedelta(seconds=3), total_timeout=timedelta(seconds=15))


def settings_for(kind: ServerKind) -> Registry:
    """How long clients wait for servers of a kind."""
    return PATIENT if kind == "dynamodb-local" else SETTINGS


@dataclass(frozen=True)
class Order:
    """What one process is to do. `first` of its `operations` were done by one that was killed.

    `prepare`: `module:function`, called before anything else; so a test breaks the registry on purpose.
    """

    pipeline: str
    kind: ServerKind
    urls: tuple[str, ...]
    recording: str
    datacenter: str
    seed: int
    clients: int
    operations: int
    first: int = 0
    prepare: str = ""

    def as_text(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))


class _Datacenter:
    """What a client knows, and what it does next."""

    def __init__(self, order: Order, registry: QuorumRegistry, recorder: Recorder) -> None:
        self._order = order
        self._registry = registry
        self._recorder = recorder
        self._chance = random.Random(order.seed)
        self._tokens = 0
        self._done = order.first
        self._own: deque[Claim] = deque(maxlen=REMEMBERED_TOKENS)
        self._won: deque[Claim] = deque(maxlen=REMEMBERED_TOKENS)
        self._to_release: deque[Claim] = deque(maxlen=REMEMBERED_TOKENS)

    def live(self) -> None:
        """All its calls."""
        while self._done < self._order.operations:
            kinds = ("new", "again", "lookup", "release", "clear")
            (kind,) = self._chance.choices(kinds, [6, 3, 4, 2, 2])
            self._done += getattr(self, f"_{kind}")()

    # -- calls; each returns how many ids it was about

    def _new(self) -> int:
        claims = [Claim(key, self._token()) for key in self._ids()]
        self._own.extend(claims)
        return self._commit(claims)

    def _again(self) -> int:
        return self._commit(self._some(self._own))

    def _lookup(self) -> int:
        claims = [Claim(key, "") for key in self._ids()]
        for claim, outcome in zip(claims, self._recorder.lookup(self._registry, claims), strict=True):
            self._hear_of(claim.key, outcome)
        return len(claims)

    def _release(self) -> int:
        claims = self._some(self._to_release)
        if claims:
            self._recorder.release(self._registry, claims)
        return len(claims)

    def _clear(self) -> int:
        claims = self._some(self._won)
        if claims:
            self._recorder.clear(self._registry, claims)
        return len(claims)

    def _commit(self, claims: Sequence[Claim]) -> int:
        if claims:
            for claim, outcome in zip(claims, self._recorder.commit(self._registry, claims), strict=True):
                if isinstance(outcome, Won) and _has_row(claim.token):
                    self._won.append(claim)
                elif not _has_row(claim.token):
                    self._to_release.append(claim)
                self._hear_of(claim.key, outcome)
        return len(claims)

    # -- choices

    def _hear_of(self, key: EventKey, outcome: object) -> None:
        """Whoever sees a token whose plan ended without a row may release it, as recovery does."""
        if isinstance(outcome, Lost | Joined):
            token = outcome.holder.token
            if token is not None and not _has_row(token):
                self._to_release.append(Claim(key, token))

    def _ids(self) -> list[EventKey]:
        begin = self._done * self._order.clients // OPERATIONS_PER_ID
        return [
            EventKey(f"id-{number}")
            for number in self._chance.sample(range(begin, begin + WINDOW_IDS), BATCH_IDS)
        ]

    def _token(self) -> str:
        self._tokens += 1
        fate = self._chance.choice((WITH_ROW, WITHOUT_ROW))
        return f"{self._order.datacenter}:{os.getpid()}:1#{fate}-{self._tokens}:1:0"

    def _some(self, claims: Sequence[Claim]) -> list[Claim]:
        """Some of them, each of another id."""
        chosen = self._chance.sample(list(claims), min(len(claims), BATCH_IDS))
        return list({claim.key: claim for claim in chosen}.values())


def _has_row(token: str) -> bool:
    return f"#{WITH_ROW}-" in token


def _found(pipeline: Pipeline) -> RegistryAddress:
    while True:  # it may be started while there is no majority
        try:
            return find_registry(pipeline)
        except RegistryUnavailable:
            SystemClock().sleep(FIND_PAUSE_SECONDS)


def main(arguments: Sequence[str]) -> int:
    """Carry out an order."""
    (text,) = arguments
    order = Order(**json.loads(text))
    if order.prepare:
        module, _, name = order.prepare.partition(":")
        getattr(importlib.import_module(module), name)()
    pipeline = registry_pipeline(order.pipeline, order.urls, settings_for(order.kind))
    registry = open_registry(_found(pipeline))
    with Recorder(Path(order.recording)) as recorder:
        _Datacenter(order, registry, recorder).live()
    close_registries()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
