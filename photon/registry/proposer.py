"""The IdRegistry over 1, 3 or 5 endpoints: the rounds of protocol B, wired to acceptors.

Decisions are in `photon.registry.decisions`, keys and values in `.layout`, requests in `.dynamodb`.
"""

from __future__ import annotations

from collections.abc import Sequence

from photon.registry.interface import Claim, CommitOutcome, EventKey, LookupOutcome, ReleaseOutcome


class QuorumRegistry:
    """An IdRegistry (see `photon.registry.interface`); thread-safe."""

    def lookup(self, keys: Sequence[EventKey]) -> list[LookupOutcome]:
        raise NotImplementedError

    def commit(self, claims: Sequence[Claim]) -> list[CommitOutcome]:
        raise NotImplementedError

    def release(self, claims: Sequence[Claim]) -> list[ReleaseOutcome]:
        raise NotImplementedError

    def clear(self, claims: Sequence[Claim]) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
