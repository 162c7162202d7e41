"""Wrong inputs: each ends with a message that names the thing, what was expected, and what to do.

Through the command itself, in this process. `test_first_mistakes` goes on from there and does what messages say.
"""

# ruff: noqa: E501  (a table: one line for each wrong input)

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from photon.cli.main import main
from photon.registry.opening import close_registries

pytestmark = pytest.mark.server

QUERIES = "query,other,at\nq1,x1,2026-01-31T10:00:00Z\nq2,x2,2026-01-31T10:00:01Z\n"
CLICKS = "click,query,rank,at\nc1,q1,1,2026-01-31T10:00:05Z\nc2,q2,2,2026-01-31T10:00:06Z\n"
OBJECTS = [{"click": "c1", "query": "q1", "at": "2026-01-31T10:00:05Z"}]
JOIN = "join PIPELINE --complete --engine local"

Spoil = Callable[[Path, dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Logs with two queries and a click on each."""
    for name, text in (("q", QUERIES), ("c", CLICKS)):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / "a.csv").write_text(text)
    yield tmp_path
    close_registries()


def settings() -> dict[str, Any]:
    log = {"format": "csv", "time": "at", "time_unit": "iso8601"}
    return {
        "name": "clicks",
        "datacenters": {"here": {"logs": "logs"}},
        "primary": {"files": "q/*", "id": "query", **log},
        "foreign": {"files": "c/*", "id": "click", "key": "query", **log},
    }


def setting(path: str, value: object) -> Spoil:
    def spoil(_: Path, file: dict[str, Any]) -> None:
        *sections, key = path.split(".")
        for section in sections:
            file = file.setdefault(section, {})
        file[key] = value

    return spoil


def clicks(data: bytes | str, name: str = "a.csv") -> Spoil:
    def spoil(folder: Path, _: dict[str, Any]) -> None:
        log = folder / "logs" / "c"
        (log / "a.csv").unlink()
        (log / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    return spoil


def no_clicks(folder: Path, _: dict[str, Any]) -> None:
    (folder / "logs" / "c" / "a.csv").unlink()


def endpoint(url: str) -> Spoil:
    return setting("registry.endpoints", [{"url": url}])


def nothing(_: Path, __: dict[str, Any]) -> None:
    pass


WRONG: list[tuple[str, Spoil, str, int, tuple[str, ...]]] = [
    # -- the pipeline file: file, line and key, what was expected, what was there
    ("unknown key", setting("foreign.keys", "query"), JOIN, 2, ("foreign.keys", "unknown key", "did you mean key?")),
    ("unit", setting("foreign.time_unit", "sec"), JOIN, 2, ("p.yaml:1: foreign.time_unit", "expected s, ms, us, ns or iso8601", "got 'sec'")),
    ("duration", setting("retry.unjoinable_after", "2 fortnights"), JOIN, 2, ("retry.unjoinable_after", "one of us, ms, s, m, h, d", "such as 250ms")),
    ("endpoint without scheme", endpoint("ids.example:8000"), JOIN, 2, ("registry.endpoints.0.url", "expected an address such as https://")),
    ("endpoint with a path", endpoint("http://127.0.0.1:9/dynamodb"), JOIN, 2, ("registry.endpoints.0.url", "without path or query", "such as http://127.0.0.1:8000", "at the root of its server")),
    ("endpoint with a query", endpoint("http://127.0.0.1:9?table=x"), JOIN, 2, ("registry.endpoints.0.url", "without path or query")),
    ("two endpoints", setting("registry.endpoints", [{"url": "http://a"}, {"url": "http://b"}]), JOIN, 2, ("registry.endpoints", "`local`, or 1, 3 or 5 endpoints")),
    ("column that is not there", setting("foreign.key", "qury"), JOIN, 2, ("foreign.key", "expected a column of", "logs/c/a.csv", "it has click, query, rank, at")),
    ("another number of keys", setting("foreign.key", ["query", "rank"]), JOIN, 2, ("foreign.key", "as primary.id has", "got 2")),
    ("one log twice", setting("foreign.files", "q/*"), JOIN, 2, ("foreign.files", "other files than those of primary.files")),
    ("glob elsewhere", setting("foreign.files", "/var/log/*"), JOIN, 2, ("foreign.files", "below the datacenter's logs folder", "such as clicks/**/*.jsonl")),
    ("lake of another", setting("datacenters.west", {"logs": "logs", "lake": "lake/here"}), JOIN, 2, ("datacenters.west.lake", "expected a folder of its own", "datacenters.here.lake")),
    ("adapter without a colon", setting("adapter", "photon.adapters"), JOIN, 2, ("adapter", "expected module:attribute", "such as photon.adapters:merge_columns")),
    ("adapter's module", setting("adapter", "nowhere:rows"), JOIN, 2, ("no module 'nowhere'", "put nowhere.py there", "mend the name")),
    ("adapter's name", setting("adapter", "photon.adapters:rows"), JOIN, 2, ("photon.adapters:rows", "has no 'rows'", "photon/adapters")),
    # -- the logs
    ("csv that is JSON lines", clicks('{"click": "c1"}\n'), JOIN, 2, ("foreign.format", "expected the format of", "looks like jsonl")),
    ("csv without a header", clicks(CLICKS.partition("\n")[2]), JOIN, 2, ("foreign.id", "got 'click'", "it has c1, q1, 1")),
    ("JSON array", lambda f, v: (clicks('[{"click": 1},\n{"click": 2}]\n')(f, v), setting("foreign.format", "jsonl")(f, v)), JOIN, 5, ("all 2 foreign lines are dead letters", "photon dead-letters", "logs/c/a.csv is one JSON array")),
    ("JSON array over lines", lambda f, v: (clicks(json.dumps(OBJECTS, indent=1))(f, v), setting("foreign.format", "jsonl")(f, v)), JOIN, 5, ("all 7 foreign lines are dead letters", "logs/c/a.csv is one JSON array", "write each of its objects on a line", "`jq -c '.[]'`, then begin anew: rm -rf /")),
    ("JSON over lines", lambda f, v: (clicks(json.dumps(OBJECTS[0], indent=1))(f, v), setting("foreign.format", "jsonl")(f, v)), JOIN, 5, ("all 5 foreign lines are dead letters", "logs/c/a.csv has a JSON object over several lines", "write each object on a line", "`jq -c .`, then begin anew: rm -rf /")),
    ("gzip by another name", clicks(gzip.compress(CLICKS.encode())), JOIN, 3, ("none of the files that match", "c/a.csv: it is gzip, and its name does not say so; rename it, so that it ends in .gz")),
    ("zstd", clicks(b"\x28\xb5\x2f\xfd" + CLICKS.encode()), JOIN, 3, ("none of the files that match", "c/a.csv: it is compressed by zstd, which is not read; decompress it")),
    ("UTF-16", clicks(CLICKS.encode("utf-16")), JOIN, 3, ("none of the files that match", "c/a.csv: it is UTF-16; convert it when nobody writes it any more, for iconv converts no growing file: `iconv -f UTF-16 -t UTF-8 /")),
    ("UTF-16 without its mark", clicks(CLICKS.encode("utf-16-be")), JOIN, 3, ("none of the files that match", "c/a.csv: it is UTF-16", "`iconv -f UTF-16BE -t UTF-8 /")),
    ("column that is twice", clicks(CLICKS.replace("rank", "query", 1)), JOIN, 2, ("foreign.key", "expected a column that ", "logs/c/a.csv has once", "got 'query'", "give each column of its header line a name of its own")),
    ("binary file", clicks(random.Random(3).randbytes(3000)), JOIN, 5, ("foreign lines are dead letters", "photon dead-letters", "Mend `foreign`")),
    ("CR alone", clicks(CLICKS.replace("\n", "\r")), JOIN, 3, ("none of the files that match", "could be read", "Mend the files, or `foreign.files`", "c/a.csv: its lines end with CR alone", "expected LF or CR LF")),
    ("gzip that is cut", clicks(gzip.compress(CLICKS.encode() * 50)[:-12], "a.csv.gz"), JOIN, 3, ("none of the files that match", "c/a.csv.gz", "this gzip file ends early", "compress it again")),
    ("name that is no UTF-8", clicks(CLICKS, "\udcff.csv"), JOIN, 3, ("its name is not UTF-8", "rename it")),
    ("file that is hidden", clicks(CLICKS, ".a.csv"), JOIN, 5, ("no file matches", "logs/c/*", "look at `foreign.files`")),
    ("empty folder", no_clicks, JOIN, 5, ("no file matches", "logs/c/*", "look at `foreign.files`", "The folder has q/a.csv")),
    ("glob that matches nothing", setting("foreign.files", "klicks/*"), JOIN, 5, ("no file matches", "logs/klicks/*", "look at `foreign.files`", "c/a.csv")),
    ("folder that is missing", setting("datacenters.here.logs", "lgs"), JOIN, 3, ("/lgs is not a folder that can be read", "look at `logs` of its datacenter")),
    ("file in place of a folder", setting("datacenters.here.logs", "logs/q/a.csv"), JOIN, 3, ("a.csv is not a folder that can be read", "look at `logs`")),
    ("no key that matches", setting("foreign.key", "rank"), JOIN, 5, ("no key matches: 2 foreign events", "photon init --dry-run", "Mend `primary.id` and `foreign.key`")),
    ("key that no line has", lambda f, v: (clicks('{"click": "c1", "query": "q1", "at": "2026-01-31T10:00:05Z"}\n')(f, v), setting("foreign.format", "jsonl")(f, v), setting("foreign.key", "qury")(f, v)), JOIN, 5, ("all 1 foreign lines that could be read were skipped", "none has the key `qury`", "photon init --dry-run", "Mend `foreign.key`", "then join again: all logs are read anew")),
    ("header alone", clicks(CLICKS.partition("\n")[0] + "\n"), JOIN, 5, ("none of the files that match", "no line below their header", "Mend the files, or `foreign.files`")),
    ("empty file", clicks(""), JOIN, 5, ("not one line is in the files that match", "logs/c/*", "mend `foreign.files`")),
    ("another format of times", setting("foreign.time_format", "%d/%m/%Y"), JOIN, 5, ("all 2 foreign lines are dead letters", "photon dead-letters", "then begin anew: rm -rf /", "/lake/here /", "/state/registry; and join again")),
    # -- words of commands
    ("no such file", nothing, "status missing.yaml", 2, ("missing.yaml: cannot be read", "expected a pipeline file", "photon init")),
    ("no such datacenter", nothing, f"{JOIN} -d ther", 2, ("no datacenter 'ther'", "expected one of: here")),
    ("a hold of nobody", nothing, "hold PIPELINE ther", 2, ("no datacenter 'ther'", "expected one of: here")),
    ("two ends", nothing, f"{JOIN} --until-idle", 2, ("exclude each other", "choose how the join ends")),
    ("a day", nothing, "verify PIPELINE --day yesterday", 2, ("'yesterday'", "a UTC day such as 2026-01-31", "--day")),
    ("a day that is not said", nothing, "backfill PIPELINE -d here", 2, ("of which days?", "--day 2026-01-31")),
    ("no id", nothing, "trace PIPELINE ''", 2, ("EVENT_ID is empty", "expected the id of a foreign event")),
    ("no ledgers", nothing, "registry reshard PIPELINE 0", 2, ("LEDGERS", "1<=x<=64")),
    ("function that mends", nothing, "dead-letters PIPELINE --mend nowhere:mend", 2, ("--mend: no module 'nowhere'", "put nowhere.py there")),
    ("a setting of Spark", nothing, "join PIPELINE --spark memory", 2, ("--spark memory", "expected KEY=VALUE", "such as spark.executor.memory=2g")),
    # -- what is not there yet
    ("verified before it was joined", nothing, "verify PIPELINE", 3, ("no registry for the pipeline clicks", "If it is new", "photon join")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "words", "status", "said"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG]
)
def test_a_wrong_input_is_told_with_what_was_expected_and_what_to_do(
    folder: Path, spoil: Spoil, words: str, status: int, said: tuple[str, ...]
) -> None:
    value = settings()
    spoil(folder, value)
    file = folder / "p.yaml"
    file.write_text(json.dumps(value))
    arguments = [str(file) if word == "PIPELINE" else word.strip("'") for word in words.split()]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "Traceback" in done.stderr) == (status, False), done.output
    for part in said:
        assert part in done.stderr
