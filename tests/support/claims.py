"""Claims of ids: one builder for all tests that do not care of which record each id is."""

from __future__ import annotations

import numpy as np

from photon.registry.entry import Claimant, Claims, Hashes

RECORD_BYTES = 300


def claims_for(claimant: Claimant, hashes: Hashes, time_us: int = 1_000_000) -> Claims:
    """Claims for these ids: events of one time, whose records follow one another in the first file."""
    many = len(hashes)
    offsets_bytes = np.arange(many, dtype=np.int64) * RECORD_BYTES
    return Claims(
        claimant, hashes, np.full(many, time_us, np.int64), np.zeros(many, np.uint32), offsets_bytes
    )
