"""A ledger's state as a stored view has it: a text, and the columns of what is unclosed."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np

from photon.registry.entry import Claimant, Epoch, LedgerId
from photon.registry.fold import LedgerState, Unclosed

_UNCLOSED = {"hashes": "<u8", "files": "<u4", "offsets_bytes": "<i8"}  # its columns
# Every other field of a state is a number or a flag, and is stored as it is.
_OF_THEIR_OWN = {"ledger", "checksum", "void_through", "over", "unclosed"}


def encode_state(state: LedgerState) -> tuple[str, bytes]:
    """A ledger's state as text, and the columns of what is unclosed."""
    numbers = {one.name: getattr(state, one.name) for one in fields(state) if one.name not in _OF_THEIR_OWN}
    unclosed = [[*at, one.claimant, len(one.hashes)] for at, one in state.unclosed.items()]
    others = {
        "checksum": state.checksum.hex(),
        "void_through": [[*epoch, batch] for epoch, batch in state.void_through.items()],
        "over": dict(state.over),
        "unclosed": unclosed,
    }
    columns = (
        np.asarray(getattr(one, name), dtype).tobytes()
        for one in state.unclosed.values()
        for name, dtype in _UNCLOSED.items()
    )
    return json.dumps({**numbers, **others}), b"".join(columns)


def decode_state(ledger: LedgerId, text: str | bytes, columns: bytes) -> LedgerState:
    """The inverse of `encode_state`."""
    stored: dict[str, Any] = json.loads(text)
    unclosed, start = {}, 0
    for origin, position, (epoch, batch, plan), length in stored["unclosed"]:
        claimant = Claimant(Epoch(*epoch), batch, plan)
        found: dict[str, Any] = {}
        for name, dtype in _UNCLOSED.items():
            count = length * (2 if name == "hashes" else 1)
            found[name] = np.frombuffer(columns, dtype, count, start)
            start += found[name].nbytes
        found["hashes"] = found["hashes"].reshape(-1, 2)
        unclosed[LedgerId(*origin), position] = Unclosed(claimant, **found)
    others = {
        "checksum": bytes.fromhex(stored["checksum"]),
        "void_through": {Epoch(name, number): batch for name, number, batch in stored["void_through"]},
        "unclosed": unclosed,
    }
    return LedgerState(**{**stored, **others, "ledger": ledger})
