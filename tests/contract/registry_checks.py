"""The two checks of the contract that a plausible but wrong registry fails: run on right and wrong ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from photon.pipeline.event_key import EventKey
from photon.registry.interface import Claim, CommitOutcome, Holder, IdRegistry, Lost, Won
from tests.contract.registry_backends import Faults

THREADS = 32
IDS_PER_CALL = 100


def token(datacenter: str, number: int, batch: int = 1) -> str:
    return f"{datacenter}:epoch:{batch}#plan:{number}:0"


EAST, WEST, THIRD = token("east", 1), token("west", 2), token("east", 3, batch=2)
EAST_HOLDS, WEST_HOLDS = Holder("east", EAST), Holder("west", WEST)


def claims(ids: Sequence[str], holder: str) -> list[Claim]:
    return [Claim(EventKey(event_id), holder) for event_id in ids]


def check_that_each_id_has_one_winner(new_client: Callable[[], IdRegistry], seed: int, ids: int) -> None:
    """32 threads of two datacenters, a client each, race for the same ids, each in an order of its own."""
    print(f"seed {seed}")
    clients = {"east": new_client(), "west": new_client()}

    def race(number: int) -> list[tuple[str, str, CommitOutcome]]:
        datacenter = ("east", "west")[number % 2]
        own = token(datacenter, number)
        order = [f"id-{i}" for i in range(ids)]
        # Half of the threads go through the ids in the same order: so that they meet.
        if number >= THREADS // 2:
            random.Random(seed + number).shuffle(order)
        found: list[tuple[str, str, CommitOutcome]] = []
        for start in range(0, ids, IDS_PER_CALL):
            part = order[start : start + IDS_PER_CALL]
            outcomes = clients[datacenter].commit(claims(part, own))
            found += [(event_id, own, outcome) for event_id, outcome in zip(part, outcomes, strict=True)]
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        found = [one for thread in pool.map(race, range(THREADS)) for one in thread]
    winners = Counter(event_id for event_id, _, outcome in found if isinstance(outcome, Won))
    assert winners == Counter({f"id-{i}": 1 for i in range(ids)})
    winner = {event_id: own for event_id, own, outcome in found if isinstance(outcome, Won)}
    for event_id, _, outcome in found:
        assert isinstance(outcome, Won) or (
            isinstance(outcome, Lost) and outcome.holder.token == winner[event_id]
        )


def check_that_a_lost_answer_is_no_loss(registry: IdRegistry, faults: Faults) -> None:
    """The first answer gets lost after the request was applied: the same token must win when asked again."""
    own = token("east", 1)
    faults.fail("lost_answer")
    (outcome,) = registry.commit(claims(["a"], own))
    faults.mend()
    if outcome != Won():  # unknown is honest too, if the next run of the plan wins
        assert not isinstance(outcome, Lost)
        (outcome,) = registry.commit(claims(["a"], own))
    assert outcome == Won()
