"""The first pages, landing.md, objects.md and access-logs.md, as who has installed Photon follows them.

In this checkout, and in empty environments with packages of both ends of the ranges, extras' too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from infra.servers.kafka import KafkaBroker
from tests.documents import Block
from tests.support.followed_pages import follow, shell_of, without_spark
from tests.support.wheel import build_wheel, installed_from_the_index

pytestmark = [pytest.mark.services, pytest.mark.timeout(1800)]
HERE = "checkout"
AVRO = """\
mkdir -p ads/store
python - <<'END'
import fastavro

def write(log, codec, ids):
    fields = [{"name": name, "type": "string"} for name in ("id", "query_id")]
    fields += [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    rows = [{"id": one, "query_id": one[1:], "at": 1767607200000 + n} for n, one in enumerate(ids)]
    with open(f"ads/store/{log}-{codec}.avro", "wb") as file:
        fastavro.writer(file, {"type": "record", "name": log, "fields": fields}, rows, codec=codec)

write("queries", "snappy", [f"{n}" for n in range(100)])
for codec in ("null", "deflate", "snappy", "zstandard"):
    write("clicks", codec, [f"{codec[0]}{n}" for n in range(100)])
END
cat > ads/pipeline.yaml <<'END'
name: ad_clicks
datacenters:
  east:
    logs: logs
    land: [{objects: "store/queries*", into: queries}, {objects: "store/clicks*", into: clicks}]
primary: {files: "queries/**/*.jsonl", format: jsonl, id: id, time: at, time_unit: iso8601}
foreign: {files: "clicks/**/*.jsonl", format: jsonl, id: id, key: query_id, time: at, time_unit: iso8601}
END
photon join ads/pipeline.yaml --complete
photon sql "SELECT _event_id[1] AS codec, count(*) FROM joined GROUP BY ALL ORDER BY ALL" ads/pipeline.yaml
"""


@pytest.fixture(scope="module", params=[HERE, "newest", "oldest"])
def variables(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Mapping[str, str]:
    """The environment by which a shell finds Photon; empty: this process's."""
    if request.param == HERE:
        return {}
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    folder = tmp_path_factory.mktemp(request.param)
    return installed_from_the_index(wheel, folder, request.param, "kafka", "objects").variables


def answer(commands: Sequence[Block], folder: Path, variables: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The rows of the table that the commands print at the end."""
    said = follow(without_spark(commands), folder, variables)
    rows = re.findall(r"^│ (\w[^│]*?) +│ +([\d.]+) +│(?: +([\d.]+) +│)?$", said, re.MULTILINE)
    return [tuple(filter(None, row)) for row in rows]


def test_the_page_on_topics_leads_from_messages_to_rows(tmp_path: Path, variables: Mapping[str, str]) -> None:
    with KafkaBroker(tmp_path / "kafka") as broker:
        page = [
            replace(one, text=one.text.replace("127.0.0.1:9092", broker.url))
            for one in shell_of("docs/landing.md")
        ]
        assert answer(page, tmp_path, variables) == [("de", "500"), ("jp", "500")]


def test_the_page_on_objects_leads_from_parquet_to_rows(tmp_path: Path, variables: Mapping[str, str]) -> None:
    assert answer(shell_of("docs/objects.md"), tmp_path, variables) == [("de", "750"), ("jp", "750")]


def test_the_page_on_access_logs_leads_from_lines_to_rows(
    tmp_path: Path, variables: Mapping[str, str]
) -> None:
    found = answer(shell_of("docs/access-logs.md"), tmp_path, variables)
    assert [orders for _, orders, _ in found] == ["300", "300"]
    assert sum(float(paid) for *_, paid in found) == sum(range(0, 3000, 5)) / 100


def test_objects_of_avro_by_each_codec_are_joined(tmp_path: Path, variables: Mapping[str, str]) -> None:
    found = answer([Block("", "bash", AVRO)], tmp_path, variables)
    assert found == [("d", "100"), ("n", "100"), ("s", "100"), ("z", "100")]
