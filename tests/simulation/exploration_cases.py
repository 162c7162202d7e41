"""The small cases that are explored exhaustively: who does what, at how many endpoints, what goes wrong.

python -m tests.simulation.exploration_cases      all of them, also those that take minutes
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from photon.ledger.stores.decisions import ballot
from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.layout import fast_value
from photon.registry.consensus.register import Register
from tests.simulation.exploration import explore
from tests.simulation.exploration_endpoints import with_a_boundary, with_another_store
from tests.simulation.exploration_states import Explored, Limits, Step

EAST, WEST, NORTH = "east:e:1#p:1:0", "west:e:1#p:1:0", "north:e:1#p:1:0"


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `takes_minutes`: not for every run of the tests."""

    programs: tuple[tuple[Step, ...], ...]
    n: int
    limits: Limits
    takes_minutes: bool = False
    held: Stored | None = None  # what every endpoint has at the beginning
    registers: tuple[Register, ...] = ()  # see `explore`

    def explore(self) -> Explored:
        """Go through all of it."""
        return explore(self.programs, self.n, self.limits, self.held, self.registers)


_EAST_AND_WEST: tuple[tuple[Step, ...], ...] = ((("commit", EAST),), (("commit", WEST),))
_THREE: tuple[tuple[Step, ...], ...] = (*_EAST_AND_WEST, (("commit", NORTH),))
_EAST_ENDS_AND_WEST: tuple[tuple[Step, ...], ...] = (
    (("commit", EAST), ("release", EAST)),
    (("commit", WEST),),
)
_EAST_AGAIN_AND_WEST: tuple[tuple[Step, ...], ...] = (
    (("commit", EAST), ("commit", EAST)),
    (("commit", WEST),),
)
_CLEARED: tuple[tuple[Step, ...], ...] = (
    (("commit", EAST), ("clear", EAST), ("commit", EAST)),
    (("commit", WEST),),
)
_WEST_AND_EASTS_PROMISE: tuple[tuple[Step, ...], ...] = ((("commit", WEST),), (("promise", EAST),))
# A token that holds the id by a ballot: its owner takes a ballot too when it presents it again.
_HELD_BY_EAST = Stored(fast_value(EAST), ballot(1, "0" * 16), ballot(1, "0" * 16))
_CLEARED_BESIDE_A_ZOMBIE: tuple[tuple[Step, ...], ...] = (
    (("clear", EAST), ("commit", WEST)),
    (("commit", EAST),),
)

# A repair, and raising the boundary; what is below it is then deleted by itself.
_REPAIR: tuple[Step, ...] = (("change", ""), ("copy", ""), ("change", ""))
_RAISE: tuple[Step, ...] = (("change", ""),)
_HELD_SINCE_THE_FAST_ROUND = Stored(fast_value(EAST))

CASES: dict[str, Case] = {
    "two proposers, one endpoint": Case(_EAST_AND_WEST, 1, Limits(timeouts=3, attempts=4)),
    "two proposers": Case(_EAST_AND_WEST, 3, Limits(timeouts=0, attempts=3)),
    "two proposers and a message that is lost or late": Case(
        _EAST_AND_WEST, 3, Limits(timeouts=1, attempts=2)
    ),
    "two proposers at five endpoints, fast round": Case(_EAST_AND_WEST, 5, Limits(timeouts=1, attempts=1)),
    "a commit beside its release": Case(
        ((("commit", EAST),), (("release", EAST),)), 3, Limits(timeouts=0, goings_on=1, attempts=2)
    ),
    "a release before another commit": Case(_EAST_ENDS_AND_WEST, 3, Limits(timeouts=0, attempts=2)),
    "a release and a crash, one endpoint": Case(
        _EAST_ENDS_AND_WEST, 1, Limits(timeouts=2, crashes=1, attempts=3)
    ),
    "a crash and the same token again, one endpoint": Case(
        _EAST_AGAIN_AND_WEST, 1, Limits(timeouts=2, crashes=1, attempts=3)
    ),
    "a crash beside nobody": Case(
        (_EAST_AGAIN_AND_WEST[0],), 3, Limits(timeouts=1, crashes=1, goings_on=1, attempts=3)
    ),
    "a lookup before a commit": Case(
        ((("commit", EAST),), (("lookup", ""), ("commit", WEST))),
        3,
        Limits(timeouts=0, goings_on=1, attempts=2),
    ),
    "clearing, one endpoint": Case(_CLEARED, 1, Limits(timeouts=2, attempts=3)),
    "clearing": Case(_CLEARED, 3, Limits(timeouts=0, attempts=2)),
    "clearing beside a zombie": Case(
        _CLEARED_BESIDE_A_ZOMBIE, 3, Limits(timeouts=1, outages=2, attempts=2), held=_HELD_BY_EAST
    ),
    "clearing while endpoints are down in turn": Case(
        (_CLEARED[0],), 3, Limits(timeouts=1, outages=3, goings_on=1, attempts=2)
    ),
    "clearing while an endpoint falls silent": Case(
        (_CLEARED[0],), 3, Limits(timeouts=2, outages=2, goings_on=1, attempts=2)
    ),
    "two proposers while endpoints are down in turn": Case(
        _EAST_AND_WEST, 3, Limits(timeouts=0, outages=2, goings_on=1, attempts=2)
    ),
    "two proposers, one of whom goes on at its quorum": Case(
        _EAST_AND_WEST, 3, Limits(timeouts=0, goings_on=1, attempts=3), takes_minutes=True
    ),
    "a release before another commit, where somebody goes on at a quorum": Case(
        _EAST_ENDS_AND_WEST, 3, Limits(timeouts=0, goings_on=1, attempts=2), takes_minutes=True
    ),
    "a commit beside another one's release": Case(
        ((("commit", EAST),), (("release", WEST),)), 3, Limits(timeouts=1, attempts=2), takes_minutes=True
    ),
    "a commit beside its release, with a message lost": Case(
        ((("commit", EAST),), (("release", EAST),)), 3, Limits(timeouts=1, attempts=2), takes_minutes=True
    ),
    "a release before another commit, with endpoints down in turn": Case(
        _EAST_ENDS_AND_WEST, 3, Limits(timeouts=0, outages=2, attempts=2), takes_minutes=True
    ),
    "clearing beside a commit, with endpoints down in turn": Case(
        _CLEARED, 3, Limits(timeouts=0, outages=2, attempts=2), takes_minutes=True
    ),
    "the same token again, with endpoints down in turn": Case(
        _EAST_AGAIN_AND_WEST, 3, Limits(timeouts=0, outages=2, attempts=2), takes_minutes=True
    ),
    # The ballots of the second client are the higher ones.
    "a commit beside a promise, with endpoints down in turn": Case(
        _WEST_AND_EASTS_PROMISE, 3, Limits(timeouts=0, outages=2, attempts=2)
    ),
    "two promises, with endpoints down in turn": Case(
        ((("promise", EAST),), (("promise", WEST),)), 3, Limits(timeouts=0, outages=2, attempts=2)
    ),
    "a promise beside a commit, and a message that is lost or late": Case(
        ((("promise", EAST),), (("commit", WEST),)), 3, Limits(timeouts=1, attempts=2)
    ),
    "a promise beside its release": Case(
        ((("promise", EAST),), (("release", EAST),)),
        3,
        Limits(timeouts=0, outages=1, goings_on=1, attempts=2),
    ),
    "a promise before its release, beside a commit": Case(
        ((("promise", EAST), ("release", EAST)), (("commit", WEST),)),
        3,
        Limits(timeouts=0, outages=1, attempts=2),
    ),
    "a lookup before a promise": Case(
        ((("promise", EAST),), (("lookup", ""), ("promise", WEST))),
        3,
        Limits(timeouts=0, outages=2, goings_on=1, attempts=2),
    ),
    "a promise, a crash and the same token again": Case(
        ((("promise", EAST), ("promise", EAST)),),
        3,
        Limits(timeouts=1, outages=1, crashes=1, goings_on=1, attempts=2),
    ),
    "clearing of what was promised": Case(
        ((("promise", EAST), ("clear", EAST), ("promise", EAST)),),
        3,
        Limits(timeouts=1, outages=3, goings_on=1, attempts=2),
    ),
    "a promise at five endpoints, fast round": Case(
        ((("promise", EAST),), (("commit", WEST),)), 5, Limits(timeouts=1, attempts=1)
    ),
    "two promises while a message is lost or late and endpoints are down in turn": Case(
        ((("promise", EAST),), (("promise", WEST),)),
        3,
        Limits(timeouts=1, outages=2, goings_on=1, attempts=2),
        takes_minutes=True,
    ),
    "three proposers, one endpoint": Case(_THREE, 1, Limits(timeouts=3, attempts=4)),
    "three proposers, fast round": Case(_THREE, 3, Limits(timeouts=0, attempts=1)),
    "two proposers at five endpoints": Case(
        _EAST_AND_WEST, 5, Limits(timeouts=0, attempts=2), takes_minutes=True
    ),
    "three proposers at five endpoints, fast round": Case(
        _THREE, 5, Limits(timeouts=0, attempts=1), takes_minutes=True
    ),
    "a crash and the same token again": Case(
        _EAST_AGAIN_AND_WEST, 3, Limits(timeouts=0, crashes=1, attempts=2), takes_minutes=True
    ),
    "a commit while its id is collected": Case(
        ((("commit", EAST),), _RAISE), 3, Limits(timeouts=1, attempts=2), registers=with_a_boundary(3)
    ),
    "another commit while an id is collected": Case(
        ((("commit", WEST),), _RAISE),
        3,
        Limits(timeouts=0, goings_on=1, attempts=2),
        held=_HELD_SINCE_THE_FAST_ROUND,
        registers=with_a_boundary(3),
    ),
    "a lookup while an id is collected": Case(
        ((("lookup", ""),), _RAISE),
        3,
        Limits(timeouts=0, goings_on=1, attempts=2),
        held=_HELD_SINCE_THE_FAST_ROUND,
        registers=with_a_boundary(3),
    ),
    "two proposers while their id is collected": Case(
        (*_EAST_AND_WEST, _RAISE),
        3,
        Limits(timeouts=0, attempts=1),
        registers=with_a_boundary(3),
    ),
    "a commit while an endpoint is replaced": Case(
        ((("commit", EAST),), _REPAIR), 3, Limits(timeouts=0, attempts=2), registers=with_another_store(3)
    ),
    "another commit while an endpoint is replaced": Case(
        ((("commit", WEST),), _REPAIR),
        3,
        Limits(timeouts=0, attempts=2),
        held=_HELD_SINCE_THE_FAST_ROUND,
        registers=with_another_store(3),
    ),
    "a lookup while an endpoint is replaced": Case(
        ((("lookup", ""),), _REPAIR),
        3,
        Limits(timeouts=1, attempts=2),
        held=_HELD_SINCE_THE_FAST_ROUND,
        registers=with_another_store(3),
    ),
    "a commit while an endpoint is replaced, and a message that is lost or late": Case(
        ((("commit", EAST),), _REPAIR),
        3,
        Limits(timeouts=1, attempts=2),
        takes_minutes=True,
        registers=with_another_store(3),
    ),
    "a commit while one of five endpoints is replaced": Case(
        ((("commit", EAST),), _REPAIR),
        5,
        Limits(timeouts=0, attempts=2),
        takes_minutes=True,
        registers=with_another_store(5),
    ),
    "a commit and its release while an endpoint is replaced": Case(
        ((("commit", EAST), ("release", EAST)), _REPAIR),
        3,
        Limits(timeouts=0, attempts=2),
        takes_minutes=True,
        registers=with_another_store(3),
    ),
    "two proposers while an endpoint is replaced": Case(
        (*_EAST_AND_WEST, _REPAIR),
        3,
        Limits(timeouts=0, attempts=1),
        registers=with_another_store(3),
    ),
}


def main() -> int:
    """The command."""
    wrong = 0
    for name, case in CASES.items():
        began = time.monotonic()
        explored = case.explore()
        print(f"{name}: {explored.states} states, {time.monotonic() - began:.0f} s", flush=True)
        if explored.problem is not None:
            print("\n  ".join([explored.problem, *explored.trace]))
            wrong += 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
