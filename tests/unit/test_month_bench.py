"""The month of files that come and go, in small: what a state holds does not grow with its age."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.month import Amounts, measure_month

DAYS = 4
MOST_GROWTH = 1.2  # from the third day to the last


@pytest.mark.slow
@pytest.mark.timeout(900)  # sixteen verifications, and as many compactions
def test_on_the_last_day_the_state_is_as_large_as_on_the_third(tmp_path: Path) -> None:
    """Times and memory depend on the machine: `make bench-month` measures them."""
    found = measure_month(tmp_path, Amounts(DAYS, files=DAYS * 24 * 2), datacenters=2)["datacenters"]
    for one in found.values():
        assert one["ratios"]["known_files"] <= MOST_GROWTH
        assert one["ratios"]["state_bytes"] <= MOST_GROWTH
        assert one["counts"]["foreign"] == DAYS * 24
    assert sum(one["counts"]["joined"] for one in found.values()) == DAYS * 24
