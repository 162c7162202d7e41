"""Which endpoints of a registry count, from what each says of itself: pure.

An endpoint says which table its directory names, and which register is in it. Asking belongs in
`photon.registry.operations.init`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from photon.registry.address import table_name
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.register import Members, Register


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint said: the table that its directory names, and the register in that table, if any."""

    table: str | None
    register: Register | None


@dataclass(frozen=True, slots=True)
class Silent:
    """An endpoint that did not answer."""

    reason: str


Said = Answer | Silent


@dataclass(frozen=True, slots=True)
class Found:
    """A registry that a majority of endpoints belongs to, and what is wrong with the others, by slot."""

    members: Members
    tables: tuple[str, ...]
    problems: dict[int, str]


@dataclass(frozen=True, slots=True)
class NotMade:
    """All endpoints answer, and none has a register: there is no registry yet, or an init did not end."""


@dataclass(frozen=True, slots=True)
class TooFewAnswer:
    """Too few endpoints answer to know whether there is a registry."""

    silent: dict[int, str]


@dataclass(frozen=True, slots=True)
class NoMajority:
    """There is a register, and no majority of the endpoints are those that it names."""

    problems: dict[int, str]


@dataclass(frozen=True, slots=True)
class OneStoreTwice:
    """Two endpoints are one and the same store (protocol B9)."""

    slots: tuple[int, int]


Judgement = Found | NotMade | TooFewAnswer | NoMajority | OneStoreTwice


def find(pipeline: str, said: Sequence[Said]) -> Judgement:
    """The registry that these endpoints, in the order of the pipeline file, make together."""
    n = len(said)
    tables = [answer.table if isinstance(answer, Answer) else None for answer in said]
    for slot, table in enumerate(tables):
        if table is not None and table in tables[:slot]:
            return OneStoreTwice((tables.index(table), slot))
    registers = [a.register for a in said if isinstance(a, Answer) and a.register is not None]
    # The newest first. A majority of one membership and one of the next have an endpoint in common.
    for register in sorted(registers, key=lambda r: r.members.version, reverse=True):
        members = register.members
        named = _tables(pipeline, members, tables)
        right = [s for s in range(n) if s not in members.down and s < len(named) and tables[s] == named[s]]
        if len(members.incarnations) == n and len(right) >= majority(n):
            return Found(members, named, _problems(pipeline, members, said))
    silent = {slot: answer.reason for slot, answer in enumerate(said) if isinstance(answer, Silent)}
    if registers and len(said) - len(silent) >= majority(n):
        return NoMajority(_problems(pipeline, registers[0].members, said))
    return TooFewAnswer(silent) if silent else NotMade()


def _tables(pipeline: str, members: Members, found: Sequence[str | None]) -> tuple[str, ...]:
    if len(members.incarnations) == 1 and len(found) == 1 and found[0] is not None:
        # The first registries of one endpoint did not have their incarnation in the table's name.
        return (found[0],)
    return tuple(table_name(pipeline, incarnation) for incarnation in members.incarnations)


def _problems(pipeline: str, members: Members, said: Sequence[Said]) -> dict[int, str]:
    """What is wrong with each endpoint that does not count, with its remedy."""
    named = [table_name(pipeline, incarnation) for incarnation in members.incarnations]
    problems: dict[int, str] = {}
    for slot, answer in enumerate(said):
        match answer:
            case Silent(reason):
                problems[slot] = f"does not answer ({reason}); bring it back"
            case _ if slot >= len(named):
                problems[slot] = f"is one too many: the registry was made over {len(named)}"
            case _ if slot in (*members.down, *members.fresh):
                problems[slot] = "is out of use until a repair of it has ended; run it again"
            case Answer(table) if table == named[slot] and len(said) < len(named):
                problems[slot] = (
                    f"is one of {len(named)} that the registry was made over, of which {len(said)} are named"
                )
            case Answer(table) if table == named[slot] or len(named) == 1:
                continue
            case Answer(None):
                problems[slot] = "has lost its data, or is a new store; it is not used until it is repaired"
            case Answer(str() as table) if table in named:
                problems[slot] = f"is number {named.index(table) + 1}: put the endpoints in their old order"
            case _:
                problems[slot] = "has the data of another registry; it is not used until it is repaired"
    return problems
