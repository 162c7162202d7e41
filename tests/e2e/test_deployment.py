"""The way of docs/deployment.md from a laptop to MinIO to a cluster: its commands, as they stand there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from examples.make_logs import TRAFFIC
from infra.servers.minio import has_minio
from infra.servers.process import free_steady_port
from tests.e2e.photon_process import joined_rows

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not has_minio(), reason="there is no MinIO on this machine: make minio"),
]
ROOT = Path(__file__).parents[2]
SECTIONS = ("On a laptop", "On a laptop, with lakes on MinIO", "On a cluster")
OTHER_MACHINES = "On several machines"  # what follows in a section is for these
PORTS = ("9000", "8000", "7077")
PATIENCE_SECONDS = 1500.0
EDIT = """python - {block} <<'EDIT'
import sys, yaml
path = "tour/pipeline.yaml"
values = {{**yaml.safe_load(open(path)), **yaml.safe_load(open(sys.argv[1]))}}
open(path, "w").write(yaml.safe_dump(values))
EDIT
"""
AWAIT = "until (echo > /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.2; done\n"


def blocks() -> list[tuple[str, str]]:
    """What a reader does in these sections, in order: commands, and what goes into the pipeline file."""
    text = (ROOT / "docs" / "deployment.md").read_text()
    found = []
    for title in SECTIONS:
        (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", text, flags=re.DOTALL | re.MULTILINE)
        here = section.partition(OTHER_MACHINES)[0]
        found += re.findall(r"^```(bash|yaml)\n(.*?)^```", here, flags=re.DOTALL | re.MULTILINE)
    return found


def script(folder: Path) -> str:
    """The blocks as one script, on ports that are free; servers answer before the next block begins."""
    lines = ["set -euo pipefail\n"]
    ports = {port: str(free_steady_port()) for port in PORTS}
    for number, (kind, block) in enumerate(blocks()):
        for documented, port in ports.items():
            block = re.sub(rf"\b{documented}\b", port, block)
        if kind == "yaml":
            (folder / f"{number}.yaml").write_text(block)
            lines.append(EDIT.format(block=f"{number}.yaml"))
        else:
            lines.append(block)
            begun = [port for port in ports.values() if re.search(rf"\b{port}\b.*&$", block, re.MULTILINE)]
            lines += [AWAIT.format(port=port) for port in begun]
    return "".join(lines)


def test_the_commands_lead_from_a_laptop_to_minio_to_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".venv", "examples", "infra"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "tour.sh").write_text(script(tmp_path))
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "") or str(ROOT)}
    with (tmp_path / "said").open("w") as said:
        tour = subprocess.Popen(
            ["bash", "tour.sh"],
            cwd=tmp_path,
            stdout=said,
            stderr=said,
            env=environment,
            start_new_session=True,
        )
        try:
            status = tour.wait(PATIENCE_SECONDS)
            assert status == 0, (tmp_path / "said").read_text()[-5_000:]
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "photon")
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-yours")
            pipeline = tmp_path / "tour" / "pipeline.yaml"
            assert yaml.safe_load(pipeline.read_text())["spark"]["master"].startswith("spark://")
            ids = joined_rows(pipeline)["_event_id"].to_pylist()
            assert len(ids) == len(set(ids)) == TRAFFIC.expected_outcomes().joined_total
        finally:
            with suppress(ProcessLookupError):
                os.killpg(tour.pid, signal.SIGKILL)
            tour.wait()
