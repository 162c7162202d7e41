"""Pages whose commands are run as they stand there, from the first block to the last: README.md."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from examples.make_logs import TRAFFIC
from tests.documents import ROOT, blocks
from tests.e2e.photon_process import joined_rows

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE_SECONDS = 800.0
LEFT_OUT = ("make setup\n",)  # the tests run in what it makes


def follow(document: str, folder: Path) -> str:
    """Run the blocks of shell of a page in a folder that has what a checkout has; what they print."""
    for name in (".venv", "examples", "infra"):
        (folder / name).symlink_to(ROOT / name)
    script = "".join(block.text for block in blocks(document) if block.language == "bash")
    for line in LEFT_OUT:
        script = script.replace(line, "")
    (folder / "page.sh").write_text(f"set -euo pipefail\n{script}")
    with (folder / "said").open("w") as said:
        shell = subprocess.Popen(
            ["bash", "page.sh"],
            cwd=folder,
            stdout=said,
            stderr=said,
            start_new_session=True,
            env=environment(),
        )
        try:
            status = shell.wait(PATIENCE_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    text = (folder / "said").read_text()
    assert status == 0, text[-5_000:]
    return text


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "") or str(ROOT)}


def test_the_commands_of_the_readme_lead_to_a_joined_table(tmp_path: Path) -> None:
    said = follow("README.md", tmp_path)
    ids = joined_rows(tmp_path / "first" / "pipeline.yaml")["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == TRAFFIC.expected_outcomes().joined_total
    assert f"[{len(ids)} rows" in said
