"""The way of docs/deployment.md from a laptop to MinIO to a cluster: its commands, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from examples.make_logs import TRAFFIC
from infra.servers.process import free_steady_port
from tests.documents import Block, blocks
from tests.support.followed_pages import follow
from tests.support.programs import needed

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.timeout(1800),
]
SECTIONS = ("On a laptop", "On a laptop, with lakes on MinIO", "On a cluster")
PORTS = ("9000", "8000", "7077")
EDIT = """python - {block} <<'EDIT'
import sys, yaml
path = "tour/pipeline.yaml"
values = {{**yaml.safe_load(open(path)), **yaml.safe_load(open(sys.argv[1]))}}
open(path, "w").write(yaml.safe_dump(values))
EDIT
"""
# The servers end with the script, so that it reads the rows.
READ = """python - > ids <<'READ'
from pathlib import Path
from tests.e2e.photon_process import joined_rows
print(*joined_rows(Path("tour/pipeline.yaml"))["_event_id"].to_pylist())
READ
"""
AWAIT = "until (echo > /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.2; done\n"


def script(folder: Path) -> str:
    """The blocks as one script, on ports that are free; servers answer before the next block begins."""
    lines, ports = list[str](), {port: str(free_steady_port()) for port in PORTS}
    for number, block in enumerate(blocks("docs/deployment.md")):
        text = block.text
        for documented, port in ports.items():
            text = re.sub(rf"\b{documented}\b", port, text)
        if block.section in SECTIONS and block.language == "yaml":
            (folder / f"{number}.yaml").write_text(text)
            lines.append(EDIT.format(block=f"{number}.yaml"))
        elif block.section in SECTIONS and block.language == "bash":
            lines.append(text)
            begun = [port for port in ports.values() if re.search(rf"\b{port}\b.*&$", text, re.MULTILINE)]
            lines += [AWAIT.format(port=port) for port in begun]
    return "".join([*lines, READ])


def test_the_commands_lead_from_a_laptop_to_minio_to_a_cluster(tmp_path: Path) -> None:
    needed("MinIO")
    follow([Block("", "bash", script(tmp_path))], tmp_path)
    pipeline = tmp_path / "tour" / "pipeline.yaml"
    assert yaml.safe_load(pipeline.read_text())["spark"]["master"].startswith("spark://")
    ids = (tmp_path / "ids").read_text().split()
    assert len(ids) == len(set(ids)) == TRAFFIC.expected_outcomes().joined_total
