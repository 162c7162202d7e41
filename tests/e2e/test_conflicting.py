"""An id that is none, in a pipeline file: every command says what became of its records."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from photon.storage.delta import open_table
from tests.e2e.photon_process import joined_rows, photon, photon_json

pytestmark = [pytest.mark.server, pytest.mark.slow]

CONNECTIONS = 20
PIPELINE = """
name: requests
datacenters:
  here: {logs: logs}
primary: {files: "conn.jsonl", format: jsonl, id: uid, time: ts, time_unit: s}
foreign: {files: "http.jsonl", format: jsonl, id: port, key: uid, time: ts, time_unit: s}
"""


def write_logs(folder: Path) -> Path:
    """Connections, each with a port, and their requests: two of the connections have two."""
    folder.mkdir()
    connections = [{"ts": 1_700_000_000 + n, "uid": f"C{n}"} for n in range(CONNECTIONS)]
    requests = [{**one, "port": 40_000 + n, "uri": "/"} for n, one in enumerate(connections)]
    requests += [{**one, "uri": "/second"} for one in requests[:2]]
    for name, rows in (("conn", connections), ("http", requests)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "http.jsonl"


def test_requests_without_a_row_are_told_by_every_command(tmp_path: Path) -> None:
    http = write_logs(tmp_path / "logs")
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    joined = photon("join", file, "--complete", "--engine", "local")
    assert "2 duplicates say something else than the record of the same id that joined" in joined.stderr
    counts = photon_json("join", file, "--complete", "--engine", "local")["here"]
    assert (counts["joined"], counts["duplicates"], counts["conflicting"]) == (20, 2, 2)
    assert joined_rows(file)["uri"].unique().to_pylist() == ["/"]

    status = photon("status", file).stdout
    assert "All is well" not in status
    assert "2 of all 22 foreign records have the id of another one, and other content" in status
    verified = photon("verify", file).stdout
    assert "FINDING conflicting: 2 duplicates" in verified
    metrics = photon("metrics", file).stdout
    assert 'photon_conflicting_records_total{datacenter="here"} 2.0' in metrics
    assert 'photon_check_level{check="conflicting",datacenter="here"} 1.0' in metrics

    examples = pa.table(open_table(tmp_path / "lake" / "here" / "conflicting").to_pyarrow_table())
    lines = http.read_bytes()
    for row in examples.to_pylist():
        other, first = (
            json.loads(lines[row[name] :].split(b"\n")[0]) for name in ("offset_bytes", "joined_offset_bytes")
        )
        assert (other["port"], other["uri"]) == (first["port"], "/second")
        assert row["differs"] == "uri"
    assert examples.num_rows == 2

    photon("acknowledge", file, "here")
    assert "All is well" in photon("status", file).stdout
