"""Requests of one kind, cut into parts for the endpoints, and their replies until they are enough. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from photon.registry.consensus.acceptor import Acceptor, NoReply, Same
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.quorums import Enough, count_answers

Q = TypeVar("Q")
R = TypeVar("R")

_NO_REPLY_YET: Any = NoReply("the endpoint is out of use, or was not waited for", "not_asked")


@dataclass(frozen=True, slots=True)
class Part:
    """The requests, by index, that one endpoint is sent together. Parts of one `group` settle together."""

    slot: int
    acceptor: Acceptor
    group: int
    indices: Sequence[int]


def cut(
    count: int,
    per_request: int,
    acceptors: Sequence[Acceptor | None],
    asked: Mapping[int, Sequence[int]] | None = None,
) -> list[Part]:
    """Parts of at most `per_request`, the first of each endpoint first; none for slots that are out of use.

    `asked`: by slot the indices of the requests for it; None: all `count` for each.
    """
    by_slot = dict.fromkeys(range(len(acceptors)), range(count)) if asked is None else asked
    parts: list[Part] = []
    for start in range(0, count, per_request):
        for slot, indices in by_slot.items():
            acceptor, some = acceptors[slot], indices[start : start + per_request]
            if acceptor is not None and some:
                parts.append(Part(slot, acceptor, start, some))
    return parts


def batches(requests: Sequence[Q], parts: Sequence[Part]) -> list[Sequence[Q]]:
    """The requests of each part. Parts with the same ones share them, and what was made of them."""
    made: dict[Sequence[int], Sequence[Q]] = {}
    for part in parts:
        place = _place(part.indices)
        if isinstance(place, slice) and part.indices not in made:
            made[part.indices] = requests[place]
    return [
        made[part.indices] if isinstance(part.indices, range) else [requests[i] for i in part.indices]
        for part in parts
    ]


class Replies(Sequence[list[R]], Generic[R]):
    """By request the replies of n endpoints, as far as they have come."""

    def __init__(self, count: int, n: int, parts: Sequence[Part], enough: Enough) -> None:
        self.got_on = 0  # groups that are settled, by the answers of a majority
        self._table = np.full((count, n), _NO_REPLY_YET, object)
        self._enough = enough
        self._taken: list[tuple[Part, Sequence[R]]] = []
        self._unsettled: dict[int, Sequence[int]] = {}  # by group, its requests
        self._mixed: set[int] = set()  # groups whose requests may have different replies
        self._outstanding = Counter(part.group for part in parts)
        self._changed: set[int] = set()  # groups with answers since it was last seen whether they are settled
        for part in parts:
            others = self._unsettled.setdefault(part.group, part.indices)
            if others != part.indices:
                self._unsettled[part.group] = sorted({*others, *part.indices})
                self._mixed.add(part.group)

    def take(self, part: Part, answers: Sequence[R]) -> None:
        """Take note of the answers to a part."""
        self._put(part, answers)
        self._outstanding[part.group] -= 1
        self._changed.add(part.group)

    def take_again(self, later: Replies[R]) -> None:
        """Take note of what some endpoints said when they were asked again."""
        for part, answers in later._taken:
            self._put(part, answers)

    def are_enough(self) -> bool:
        """Whether nobody needs to wait for any of the others."""
        for group in self._changed & self._unsettled.keys():
            if self._is_settled(group):
                first, *_ = self._unsettled.pop(group)
                self.got_on += count_answers(self[first]) >= majority(self._table.shape[1])
        self._changed.clear()
        return not self._unsettled

    def needs(self, part: Part) -> bool:
        """Whether the replies to some request of this part are not enough yet."""
        return part.group in self._unsettled

    def codes(self, code: Callable[[R], int]) -> npt.NDArray[np.int8]:
        """By request and endpoint: the code of its reply; 0 where there is none."""
        found = np.zeros(self._table.shape, np.int8)
        for part, answers in self._taken:
            codes = code(answers.reply) if isinstance(answers, Same) else list(map(code, answers))
            found[_place(part.indices), part.slot] = codes
        return found

    def are(self, kind: type) -> npt.NDArray[np.bool_]:
        """By request and endpoint: whether there is a reply of this kind."""
        return self.codes(lambda reply: isinstance(reply, kind)).astype(bool)

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> list[R]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[list[R]]: ...
    def __getitem__(self, index: int | slice) -> list[R] | Sequence[list[R]]:
        return self._table[index].tolist()  # type: ignore[no-any-return]

    def _put(self, part: Part, answers: Sequence[R]) -> None:
        self._taken.append((part, answers))
        if isinstance(answers, Same):
            self._table[_place(part.indices), part.slot] = answers.reply
        else:
            self._mixed.add(part.group)
            self._table[_place(part.indices), part.slot] = answers

    def _is_settled(self, group: int) -> bool:
        if self._outstanding[group] == 0:
            return True
        requests = self._unsettled[group]
        some = requests if group in self._mixed else requests[:1]  # the others have the same replies
        return all(self._enough(self[index]) for index in some)


def _place(indices: Sequence[int]) -> slice | list[int]:
    return slice(indices[0], indices[-1] + 1) if isinstance(indices, range) else list(indices)
