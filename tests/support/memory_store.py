"""A store of the registry in memory, and what goes wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from photon.registry.stores.copies import (
    ABSENT,
    Accept,
    Copy,
    Done,
    Insert,
    Key,
    NoReply,
    Page,
    Prepare,
    Promised,
    Refused,
)

R = TypeVar("R")
PAGE_ITEMS = 4  # few, so that small tests read several pages


class MemoryStore:
    """A store that does as it is told. `fault` is asked before each request: what goes wrong, if anything."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: dict[Key, Copy] = {}
        self.numbers: dict[Key, int] = {}
        self.requests: list[str] = []
        self.fault: Callable[[str], str | None] = lambda request: None
        self._lock = threading.Lock()

    def insert(self, insert: Insert) -> Done | Refused | NoReply:
        def do() -> Done | Refused:
            if insert.key in self.items:
                return Refused(self.items[insert.key])
            self.items[insert.key] = Copy(insert.value)
            return Done()

        return self._serve("insert", do)

    def prepare(self, prepare: Prepare) -> Promised | Refused | NoReply:
        def do() -> Promised | Refused:
            now = self.items.get(prepare.key, ABSENT)
            if now.promised >= prepare.ballot:
                return Refused(now)
            self.items[prepare.key] = Copy(now.value, now.accepted, prepare.ballot)
            return Promised(now)

        return self._serve("prepare", do)

    def accept(self, accept: Accept) -> Done | Refused | NoReply:
        def do() -> Done | Refused:
            now = self.items.get(accept.key, ABSENT)
            if now.promised > accept.ballot:
                return Refused(now)
            self.items[accept.key] = Copy(accept.value, accept.ballot, accept.ballot)
            return Done()

        return self._serve("accept", do)

    def get(self, key: Key) -> Copy | NoReply:
        return self._serve("get", lambda: self.items.get(key, ABSENT))

    def ending(self, key: Key) -> bytes | NoReply:
        return self._serve("ending", lambda: (self.items.get(key, ABSENT).value or b"")[-16:])

    def page(self, first: Key) -> Page | NoReply:
        def do() -> Page:
            here = sorted(k.position for k in self.items if k.ledger == first.ledger and k >= first)
            some = here[:PAGE_ITEMS]
            copies = {position: self.items[Key(first.ledger, position)] for position in some}
            return Page(first.position, some[-1] if len(some) < len(here) else None, copies)

        return self._serve("page", do)

    def forget(self, ledger: str) -> int | NoReply:
        def do() -> int:
            some = [key for key in self.items if key.ledger == ledger][:PAGE_ITEMS]
            for one in some:
                del self.items[one]
            return len(some)

        return self._serve("forget", do)

    def beat(self, key: Key, number: int) -> Done | NoReply:
        def do() -> Done:
            self.numbers[key] = max(number, self.numbers.get(key, 0))
            return Done()

        return self._serve("beat", do)

    def last_beat(self, key: Key) -> int | NoReply:
        return self._serve("last_beat", lambda: self.numbers.get(key, 0))

    def _serve(self, request: str, do: Callable[[], R]) -> R | NoReply:
        with self._lock:
            return self._serve_alone(request, do)

    def _serve_alone(self, request: str, do: Callable[[], R]) -> R | NoReply:
        self.requests.append(request)
        match self.fault(request):
            case None:
                return do()
            case "lost answer":
                do()
                return NoReply("lost answer", "unreachable")
            case "throttled":
                return NoReply("slow down", "throttled")
            case fault:
                return NoReply(str(fault), "unreachable")
