"""How many bytes an item takes, by DynamoDB's own rule: names and values of its attributes in UTF-8, pure."""

from __future__ import annotations

from photon.registry.consensus.acceptor import Scanned

_KEY_NAMES_BYTES = len("p") + len("s")


def item_bytes(item: Scanned) -> int:
    """The size of a stored item: its key, and what is stored beside it."""
    return _KEY_NAMES_BYTES + _bytes(item.key.p) + _bytes(item.key.s) + bytes_beside_key(item)


def bytes_beside_key(item: Scanned) -> int:
    """The size of an item without its key: value, ballots, and the stored time (`e`, even if it is empty)."""
    stored = item.stored
    attributes = [("e", item.time)]
    if stored.value is not None:
        attributes.append(("t", stored.value))
    attributes += [(name, text) for name, text in (("a", stored.accepted), ("b", stored.promised)) if text]
    return sum(len(name) + _bytes(text) for name, text in attributes)


def _bytes(text: str) -> int:
    return len(text.encode())
