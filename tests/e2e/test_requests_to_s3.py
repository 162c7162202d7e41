"""What a whole join asks of S3, counted between it and a real MinIO: counts, never times."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.s3_requests import HOUR_SECONDS, SETTLE_SECONDS, joining
from tests.support import programs

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

MOST_OF_A_COMMIT, MOST_OF_AN_IDLE_HOUR = 45, 3_000
POINTS = 30  # a commit to the table of points may fall into the time, which stands for ten times as long


def test_a_commit_and_an_idle_hour_cost_no_more_requests_than_is_told(tmp_path: Path) -> None:
    programs.needed("MinIO")
    with joining(tmp_path, objects=50) as measured:
        measured.count(5, measured.write)
        bill = measured.count(30, measured.write)
        assert bill.commits > 5
        assert bill.requests.total() / bill.commits <= MOST_OF_A_COMMIT, bill.as_dict()
        measured.count(SETTLE_SECONDS)
        idle = measured.count(60)
        assert idle.commits == 0
        assert idle.requests.total() <= POINTS + MOST_OF_AN_IDLE_HOUR * idle.seconds / HOUR_SECONDS, (
            idle.as_dict()
        )
