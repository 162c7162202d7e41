"""Errors of a store in words for people, and whether something is damaged then."""

from __future__ import annotations

import errno


class StoreUnavailable(OSError):
    """A store did not answer as it should: nobody knows what it has."""


def tells_of_damage(error: OSError) -> bool:
    """Whether an object is gone or can't ever be read, as Arrow or a store says.

    A store that does not answer, or refuses, has damaged nothing. Arrow's own findings have no number. A disk
    that can't read these bytes has lost them (EIO).
    """
    if isinstance(error, StoreUnavailable | PermissionError):
        return False
    return error.errno in (None, errno.ENOENT, errno.EIO)
