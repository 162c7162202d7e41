"""Entries for tests: small ones by hand, any at all by hypothesis, batches as joins make them; equality."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from photon.registry.entry import (
    FOR_EVER,
    NO_TIME_US,
    Claimant,
    Claims,
    Close,
    Entry,
    Epoch,
    Free,
    Genesis,
    LedgerId,
    NumberedRelease,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NUMBERS = st.integers(0, 300) | st.integers(0, 2**63 - 1)
TIMES_US = st.integers(-(2**63), 2**63 - 1) | st.just(NO_TIME_US)
LEDGERS = st.builds(LedgerId, st.integers(0, 2**31 - 1), st.integers(0, 2**16 - 1))
POSITIONS = st.integers(0, 2**32 - 2)
EPOCHS = st.builds(Epoch, TEXTS, NUMBERS)
CLAIMANTS = st.builds(Claimant, EPOCHS, NUMBERS, TEXTS)
HASHES = st.integers(0, 40).flatmap(lambda length: arrays.arrays(np.uint64, (length, 2)))


def same(one: Any, other: Any) -> bool:
    """Say whether two entries, or parts of them, are equal: arrays by dtype and values."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if is_dataclass(one):
        names = [each.name for each in fields(one)]
        return type(one) is type(other) and all(same(getattr(one, n), getattr(other, n)) for n in names)
    if type(one) is tuple:
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def usual_claims(length: int, seed: int, files: int = 4, is_shuffled: bool = False) -> Claims:
    """Claims as a batch has them: random ids, times within seconds, records of 200 to 800 bytes."""
    random = np.random.default_rng(seed)
    of_file = random.integers(0, files, length).astype(np.uint32)
    starts = random.integers(0, 10**10, files)
    offsets_bytes = np.cumsum(random.integers(200, 800, length)) // files + starts[of_file]
    times_us = 1_764_000_000_000_000 + np.sort(random.integers(0, 3_000_000, length))
    claims = Claims(
        Claimant(Epoch("north", 3), 17, "0123456789abcdef"),
        random.integers(0, 2**64, (length, 2), dtype=np.uint64),
        times_us + random.integers(0, 300_000, length),
        of_file,
        offsets_bytes,
    )
    return claims.take(random.permutation(length)) if is_shuffled else claims


@st.composite
def any_claims(draw: st.DrawFn) -> Claims:
    """Claims with any values at all."""
    hashes = draw(HASHES)

    def column(dtype: npt.DTypeLike, values: st.SearchStrategy[int]) -> npt.NDArray[Any]:
        return draw(arrays.arrays(dtype, len(hashes), elements=values))

    offsets = st.integers(0, 10**6) | st.integers(-(2**63), 2**63 - 1)
    files = st.integers(0, 3) | st.integers(0, 2**32 - 1)
    columns = column(np.int64, TIMES_US), column(np.uint32, files), column(np.int64, offsets)
    return Claims(draw(CLAIMANTS), hashes, *columns)


FREES = st.builds(Free, LEDGERS, POSITIONS, HASHES)
CLOSES = st.builds(
    Close,
    EPOCHS,
    NUMBERS | st.just(FOR_EVER),
    st.lists(FREES, max_size=3).map(tuple),
    st.booleans(),
    st.booleans(),
)
GENESES = st.builds(
    Genesis,
    st.integers(0, 2**16 - 1),
    st.lists(LEDGERS, max_size=4).map(tuple),
    TIMES_US,
    st.dictionaries(TEXTS, NUMBERS, max_size=4),
)
ENTRIES = st.builds(
    Entry,
    TEXTS,
    st.just(b"") | st.binary(min_size=16, max_size=16),
    st.none() | GENESES,
    st.none() | TIMES_US,
    st.lists(CLOSES, max_size=3).map(tuple),
    st.lists(FREES, max_size=3).map(tuple),
    st.none() | any_claims(),
    st.booleans(),
    st.none() | st.builds(NumberedRelease, NUMBERS, st.binary(max_size=300)),
    st.booleans(),
)
