"""One attempt of an explored client: the product's own code over the replies that it got so far."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from photon.ledger.errors import RegistryUnavailable
from photon.registry.consensus import decisions
from photon.registry.consensus.columns import ItemColumn
from photon.registry.consensus.layout import is_too_old
from photon.registry.consensus.register import Register
from photon.registry.endpoints.deadline import Unanswered
from photon.registry.interface import Claim, TooOld
from photon.registry.operations.copying import Copying
from photon.registry.quorum import outcomes
from photon.registry.quorum.clearing import Clearing
from photon.registry.quorum.contender import Contender
from photon.registry.quorum.reading import holders_of
from photon.registry.quorum.register_store import RegisterStore
from photon.registry.quorum.rounds import Rounds
from photon.testing.manual_clock import ManualClock
from tests.simulation.exploration_endpoints import IMPATIENT, ITEM, KEY, Impatient, Inline, Scripted
from tests.simulation.exploration_states import CLEARED, COPIED, FREE, Ended, Local, Role, Step


class Attempts:
    """The attempts of the clients of one exploration."""

    def __init__(self, programs: Sequence[Sequence[Step]], registers: Sequence[Register]) -> None:
        self._programs = programs
        self._registers = registers

    def run(self, client: int, local: Local, roles: Sequence[Role], replies: list[list[Any]]) -> Ended:
        """How an attempt ends. `Waits`, if it asks for more than these replies, one list a store."""
        verb, token = self._programs[client][local.step]
        scripted = [Scripted(*one) for one in zip(replies, roles or ("member",) * len(replies), strict=True)]
        # A repair that is tried again is another proposer.
        chance = random.Random(f"{client} {local.lives}" + f" {local.attempt}" * (verb == "copy"))
        endpoints = self._endpoints(local, scripted, chance)
        store = RegisterStore(endpoints, IMPATIENT)
        if verb == "copy":
            return Ended(_copied(endpoints, store, _in_role("replacing", scripted)), False, 1)
        rounds = Rounds(endpoints, store)
        rounds.known = self._registers[local.known]
        contender = Contender(Claim(KEY, token), ITEM, local.needs_ballot or verb == "release", local.counter)
        verdict: object | None
        if verb == "lookup":
            verdict = _looked_up(rounds)
        elif verb == "clear":
            verdict = None if Clearing(rounds).clear([contender])[1] else CLEARED
        else:
            if contender.needs_ballot:
                propose = decisions.value_to_release if verb == "release" else decisions.value_to_commit
                rounds.classic([contender], propose)
            else:
                rounds.fast_again([contender], with_promise=verb == "promise")
            is_settled = contender.verdict is not None and verb != "release"
            verdict = outcomes.outcome_of_commit(contender) if is_settled else contender.verdict
        return Ended(verdict, contender.needs_ballot, contender.counter)

    def _endpoints(self, local: Local, scripted: Sequence[Scripted], chance: random.Random) -> Impatient:
        """The stores that the client asks, as far as it knows the members."""
        acceptors: list[Any] = [one for one in scripted if one.role == "member"]
        if len(acceptors) < len(scripted):
            acceptors.append(_in_role("replacing" if local.known else "replaced", scripted))
        return Impatient(
            acceptors,
            Inline(self._registers, local.seen),
            ManualClock(),
            chance,
            members=self._registers[local.known].members,
            reopen=lambda slot, incarnation: _in_role("replacing", scripted),
        )


def _in_role(role: Role, scripted: Sequence[Scripted]) -> Any:
    return next(one for one in scripted if one.role == role)


def _looked_up(rounds: Rounds) -> object | None:
    """What a lookup is told, if it is told anything."""
    reading = holders_of(ItemColumn.of([ITEM]))
    register = rounds.read(reading)
    if register is None:
        return None
    return TooOld() if is_too_old(KEY, register) else reading.found.get(0) or FREE


def _copied(endpoints: Impatient, register: RegisterStore, store: Any) -> str | None:
    """Fill a new store, as a repair does: None if somebody did not answer."""
    registry: Any = SimpleNamespace(endpoints=endpoints, register=register, settings=IMPATIENT)
    try:
        copying = Copying(registry, endpoints.active, page_items=9)
        list(copying._copy_shard(endpoints.alone(store), ITEM.p, None))
    except (RegistryUnavailable, Unanswered):
        return None
    return COPIED
