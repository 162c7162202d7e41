"""Which endpoints make a registry together, from what each says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from photon.errors import UserError
from photon.ledger.address import EndpointAddress, table_name
from photon.ledger.errors import RegistryMismatch, RegistryUnavailable
from photon.ledger.stores.copies import NoReply
from photon.pipeline.file import Pipeline
from photon.registry.consensus.layout import SHARD_HASH
from photon.registry.consensus.register import Members, Register
from photon.registry.operations.init import Answer, EndpointReply, RegistryFound, classify_endpoints

EVENTS = Pipeline.model_construct(name="p", file=Path("p.yaml"))
GONE = NoReply("connection refused")
DENIES = NoReply("not you; mend its rights", "denied")
NEW = Answer(None, None)
SILENT = "does not answer (connection refused)"
WHY = {"gone": "does not answer (connection refused); bring it back"}
WHY |= {"denies": "does not let us in (not you; mend its rights)"}
WHY |= {"new": "has lost its data, or is a new store; it is not used until it is repaired"}
WHY |= {"other": "has the data of another registry; it is not used until it is repaired"}
WHY |= {"down": "is out of use until a repair of it has ended; run it again"}


def says(incarnation: str, members: Members | None) -> Answer:
    register = None if members is None else Register("p", "s", SHARD_HASH, members, ())
    return Answer(table_name("p", incarnation), register)


def classify(replies: list[EndpointReply]) -> RegistryFound | None:
    endpoints = [EndpointAddress(f"s{slot}") for slot in range(len(replies))]
    return classify_endpoints(EVENTS, endpoints, replies)


FIRST = Members(1, ("a", "b", "c"))
DURING = Members(2, ("a", "b", "new"), down=(2,))
REPAIRED = Members(4, ("a", "b", "new"))
A, B, C = (says(name, FIRST) for name in "abc")


def found(members: Members, **problems: str) -> RegistryFound:
    """A registry, and the problem of each slot (`slot2="..."`)."""
    return RegistryFound(members, {int(slot[-1]): WHY[why] for slot, why in problems.items()})


@pytest.mark.parametrize(
    ("replies", "registry"),
    [
        # A majority makes the registry, and the others are named with the remedy.
        ([A, B, C], found(FIRST)),
        ([A, GONE, C], found(FIRST, slot1="gone")),
        ([A, DENIES, C], found(FIRST, slot1="denies")),
        ([NEW, B, C], found(FIRST, slot0="new")),
        ([A, B, says("x", None)], found(FIRST, slot2="other")),
        ([A, B, says("x", Members(1, ("x", "y", "z")))], found(FIRST, slot2="other")),
        # Of several memberships the newest that has a majority counts.
        ([says("a", DURING), says("b", DURING), C], found(DURING, slot2="down")),
        ([A, says("b", REPAIRED), says("new", REPAIRED)], found(REPAIRED)),
        # Without any register there is no registry, unless somebody who does not answer has one.
        ([NEW, NEW, NEW], None),
        ([says("a", None), NEW, NEW], None),  # an init that did not end
    ],
)
def test_what_the_endpoints_say_decides_whether_there_is_a_registry(
    replies: list[EndpointReply], registry: RegistryFound | None
) -> None:
    assert classify(replies) == registry


TOO_FEW = "too few endpoints of the registry answer: "
NO_MAJORITY = (
    "; no majority of the registry's endpoints is left: name those that it was made over, or bring back"
    " their data"
)


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ([NEW, NEW, GONE], RegistryUnavailable(f"{TOO_FEW}s2 {SILENT}")),
        ([A, DENIES, GONE], RegistryUnavailable(f"{TOO_FEW}s1 {WHY['denies']}; s2 {SILENT}")),
        ([A, GONE, GONE], RegistryUnavailable(f"{TOO_FEW}s1 {SILENT}; s2 {SILENT}")),
        (
            [A, B, A],
            RegistryMismatch(
                "p.yaml: s0 and s2 are one and the same store; give the registry stores of their own"
            ),
        ),
        # The only store is another one than the registry was made over.
        (
            [says("x", Members(1, ("a",)))],
            RegistryMismatch(f"p.yaml: s0 {WHY['other']}{NO_MAJORITY}"),
        ),
    ],
)
def test_endpoints_that_do_not_make_a_registry_are_an_error_with_its_remedy(
    replies: list[EndpointReply], error: UserError
) -> None:
    with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
        classify(replies)


@pytest.mark.parametrize(
    ("replies", "slot", "problem"),
    [
        ([A, NEW, NEW], 1, WHY["new"]),  # and no new registry is made beside the old one
        ([B, A, C], 0, "is number 2: put the endpoints in their old order"),
        ([B, A, C], 1, "is number 1: put the endpoints in their old order"),
        ([A, B, C, NEW, NEW], 3, "is one too many: the registry was made over 3"),
        ([A], 0, "is one of 3 that the registry was made over, and the pipeline file names 1"),
        ([A, B], 0, "is one of 3 that the registry was made over, and the pipeline file names 2"),
    ],
)
def test_where_no_majority_is_left_each_endpoint_says_why(
    replies: list[EndpointReply], slot: int, problem: str
) -> None:
    with pytest.raises(RegistryMismatch, match=f"(: |; )s{slot} {re.escape(problem)}; .*no majority"):
        classify(replies)
