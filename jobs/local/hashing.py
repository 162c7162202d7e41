"""XXH64 with Spark's seed, so that what one engine keeps is known to the other."""

from __future__ import annotations

_SEED = 42  # Spark's
_MASK = 2**64 - 1
_1, _2, _3, _4, _5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def xxhash64(text: str | None) -> int:
    """The hash of a text's UTF-8, as a signed number; of null the seed."""
    if text is None:
        return _SEED
    data = text.encode()
    length, at = len(data), 0
    if length >= 32:
        sums = [(_SEED + _1 + _2) & _MASK, (_SEED + _2) & _MASK, _SEED, (_SEED - _1) & _MASK]
        while at <= length - 32:
            for lane in range(4):
                sums[lane] = _round(sums[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        found = sum(_left(one, bits) for one, bits in zip(sums, (1, 7, 12, 18), strict=True)) & _MASK
        for one in sums:
            found = ((found ^ _round(0, one)) * _1 + _4) & _MASK
    else:
        found = (_SEED + _5) & _MASK
    found = (found + length) & _MASK
    while at <= length - 8:
        found ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        found = (_left(found, 27) * _1 + _4) & _MASK
        at += 8
    if at <= length - 4:
        found ^= int.from_bytes(data[at : at + 4], "little") * _1 & _MASK
        found = (_left(found, 23) * _2 + _3) & _MASK
        at += 4
    for byte in data[at:]:
        found = _left(found ^ (byte * _5 & _MASK), 11) * _1 & _MASK
    found = (found ^ found >> 33) * _2 & _MASK
    found = (found ^ found >> 29) * _3 & _MASK
    found ^= found >> 32
    return found - 2**64 if found >= 2**63 else found


def _round(sum_before: int, lane: int) -> int:
    return _left((sum_before + lane * _2) & _MASK, 31) * _1 & _MASK


def _left(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK
