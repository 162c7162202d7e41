"""How often an adapter was asked and failed, and when that is too often (protocol A21)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

# An adapter that fails on more than half is wrong itself; below that its events are, one by one.
FAILING_SHARE = 0.5
# A share of fewer events says nothing: two bad ones in three are no broken adapter.
LEAST_ASKED = 100


@dataclass(frozen=True, slots=True)
class CallTally:
    """The calls of one of an adapter's functions."""

    asked: int = 0
    failed: int = 0
    first_reason: str = ""  # why it failed the first time

    def __add__(self, other: CallTally) -> CallTally:
        first_reason = self.first_reason or other.first_reason
        return CallTally(self.asked + other.asked, self.failed + other.failed, first_reason)

    @property
    def is_over_share(self) -> bool:
        return self.failed > FAILING_SHARE * self.asked

    @property
    def is_too_many(self) -> bool:
        return self.asked >= LEAST_ASKED and self.is_over_share

    def in_a_row(self, before: CallTally) -> CallTally:
        """With those of the batches right before, as long as each of them is over the share."""
        if not self.asked:
            return before
        return before + self if self.is_over_share else CallTally()


@dataclass(frozen=True, slots=True)
class AdapterCalls:
    """The calls of both of an adapter's functions."""

    skip: CallTally = CallTally()  # one call a foreign event
    combine: CallTally = CallTally()  # one call a pair

    def __add__(self, other: AdapterCalls) -> AdapterCalls:
        return AdapterCalls(self.skip + other.skip, self.combine + other.combine)

    def in_a_row(self, before: AdapterCalls) -> AdapterCalls:
        """With those of the batches right before, as long as each of them is over the share."""
        return AdapterCalls(self.skip.in_a_row(before.skip), self.combine.in_a_row(before.combine))

    def refusal(self) -> str:
        """Say which function failed on too many; empty: none did."""
        for name, of, tally in (("skip", "events", self.skip), ("combine", "pairs", self.combine)):
            if tally.is_too_many:
                failed = f"its {name} failed on {tally.failed:,} of {tally.asked:,} {of}"
                return f"{failed}, the first time with {tally.first_reason}"
        return ""


def calls_to_json(calls: AdapterCalls) -> str:
    """The stored form of calls."""
    return json.dumps(asdict(calls))


def calls_from_json(text: str | None) -> AdapterCalls:
    """The inverse of `calls_to_json`; no calls where none are stored."""
    return AdapterCalls(**{name: CallTally(**tally) for name, tally in json.loads(text or "{}").items()})


class TooManyFail(Exception):
    """The adapter fails on too much of one task: nothing of it may be claimed."""

    def __init__(self, calls: AdapterCalls) -> None:
        super().__init__(calls)
        self.calls = calls
