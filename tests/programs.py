"""Programs that a test needs and that pip can't install."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

# Set it to agree that tests are left out. If it is not set, a run that tested little does not look good.
MAY_BE_MISSING = "PHOTON_TESTS_WITHOUT_PROGRAMS"


def end_without(missing: str) -> NoReturn:
    """End a test that needs a program that is not there: as failed, or as skipped if that was agreed.

    `missing` says what is not there, and how to get it.
    """
    if os.environ.get(MAY_BE_MISSING):
        pytest.skip(missing)
    pytest.fail(f"{missing}; to leave out what needs it, set {MAY_BE_MISSING}=1", pytrace=False)
