"""README's way to a joined table, on logs that nobody has described; and the first mistake, mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from photon.errors import NOT_MEANT
from tests.e2e.photon_process import joined_rows, photon, photon_json

JOIN = ("--complete", "--engine", "local")


@pytest.mark.server
@pytest.mark.slow
def test_logs_of_ones_own_are_described_and_joined_and_a_wrong_key_is_told_and_mended(
    tmp_path: Path,
) -> None:
    queries = [{"query_id": f"q{i}", "time": f"2026-01-05T10:00:{i % 60:02}Z"} for i in range(80)]
    clicks = [{"click_id": f"c{i}", "query_id": f"q{i}", "ts": 1_767_607_200_000 + i} for i in range(50)]
    for name, rows in (("queries", queries), ("clicks", clicks)):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "pipeline.yaml"
    init = ("init", tmp_path / "logs" / "queries", tmp_path / "logs" / "clicks", "-o", file)
    photon(*init, "--foreign-key", "click_id", "--primary-id", "query_id", "--foreign-id", "ts", status=3)
    wrong = photon("join", file, *JOIN, status=NOT_MEANT)
    assert "no key matches: 50 foreign events" in wrong.stderr
    assert "photon init --dry-run" in wrong.stderr

    own = tmp_path / "own" / "pipeline.yaml"  # the lake and the state of the mistake are left behind
    photon(*init[:3], "-o", own)
    assert photon_json("join", own, *JOIN)["here"]["joined"] == 50
    assert len(joined_rows(own)) == 50
