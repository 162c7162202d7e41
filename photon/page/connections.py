"""Connections of browsers: who sends or takes nothing is let go, so that he keeps nobody else out.

The server under the page has no limit of time for the head of a request, and turns everybody away while too
many connections are open. Here a new one takes the place of the one that has been idle longest.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 5.0  # from the opening, or the first byte after an answer, to the end of a request's head
STALLED_SECONDS = 10.0  # for which a client takes nothing of its answer
# Each tab of a browser has up to six. Viewers behind a proxy have one address together.
MOST_CONNECTIONS = 200
MOST_OF_ADDRESS = 64


class PageConnection(H11Protocol):
    """A connection of the page, with limits of its own."""

    idle_since_seconds = 0.0
    _head_limit: asyncio.TimerHandle | None = None
    _stalled_limit: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it has sent no request that waits for its answer."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle_since_seconds = self.loop.time()
        self._limit_head()
        open_ones = [one for one in self.connections if isinstance(one, PageConnection)]
        _make_room([one for one in open_ones if one.address == self.address], MOST_OF_ADDRESS)
        _make_room(open_ones, MOST_CONNECTIONS)

    @property
    def address(self) -> str:
        return self.client[0] if self.client is not None else ""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_head()

    def on_response_complete(self) -> None:
        self.idle_since_seconds = self.loop.time()
        super().on_response_complete()  # which lets it go if it sends nothing for some seconds

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_limit = self.loop.call_later(STALLED_SECONDS, self.let_go)

    def resume_writing(self) -> None:
        super().resume_writing()
        _stop(self._stalled_limit)

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._head_limit)
        _stop(self._stalled_limit)
        super().connection_lost(exc)

    def let_go(self) -> None:
        """Close it at once, whatever it has not taken yet."""
        self.connections.discard(self)  # the loop tells the loss only later
        self.transport.abort()

    def _limit_head(self) -> None:
        if not self.is_idle:
            _stop(self._head_limit)
            self._head_limit = None
        elif self._head_limit is None:
            self._head_limit = self.loop.call_later(HEAD_SECONDS, self.let_go)


def _make_room(among: list[PageConnection], most: int) -> None:
    """Let go who has been idle longest, of too many. If all others are being answered, it is the new one."""
    if len(among) > most:
        idle = (one for one in among if one.is_idle)
        min(idle, key=lambda one: one.idle_since_seconds).let_go()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
