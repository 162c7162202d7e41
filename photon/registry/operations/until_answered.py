"""Ask again what got no reply, until all has one or the time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from photon.registry.consensus.acceptor import NoReply
from photon.registry.endpoints.endpoints import Deadline

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Unanswered(Exception, Generic[Request]):
    """So much `left` got no reply; the message is the reason of the first one."""

    def __init__(self, left: Sequence[Request], reason: str) -> None:
        super().__init__(reason)
        self.left = left


def until_answered(
    ask: Callable[[Sequence[Request]], Sequence[Reply | NoReply]],
    requests: Sequence[Request],
    deadline: Deadline,
) -> Iterator[tuple[Request, Reply]]:
    """Each request with its reply, as they come. Unanswered if `deadline` passes without any of them."""
    left = list(requests)
    while left:
        silent: list[tuple[Request, NoReply]] = []
        for request, reply in zip(left, ask(left), strict=True):
            if isinstance(reply, NoReply):
                silent.append((request, reply))
            else:
                yield request, reply
        if len(silent) < len(left):
            deadline.renew()
        left = [request for request, _ in silent]
        if left and not deadline.pause():
            raise Unanswered(left, silent[0][1].reason)
