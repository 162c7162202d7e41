"""Rules of docs/protocol.md as simulations hold them: the message says which one is broken, and where."""

from __future__ import annotations


class RuleBroken(AssertionError):
    """A rule does not hold."""


def must(holds: object, rule: str) -> None:
    """Raise RuleBroken, unless the rule holds."""
    if not holds:
        raise RuleBroken(rule)
