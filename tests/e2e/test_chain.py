"""Three streams by two pipelines, each with two datacenters, while logs grow and processes are killed."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from photon.pipeline.file import load_pipeline
from photon.storage.delta import is_table, open_table
from tests.documents import ROOT
from tests.e2e.photon_process import (
    PATIENCE_SECONDS,
    joined_rows,
    kill,
    photon,
    photon_json,
    running,
    stop,
)
from tests.e2e.process_marks import soon

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]

DATACENTERS = ("east", "west")
EVENTS, BATCH = 240, 12
LATE = 5 * BATCH  # so far behind its click comes a query: 2.5 s
BEGIN_S = 1_767_607_200
# The second one gives up long before the first one does, but for the watermark.
FIRST = "retry: {unjoinable_after: 8s, allowed_lateness: 1s}\nreleases: {every: 500ms}\n"
SECOND = (
    "retry: {unjoinable_after: 1s, allowed_lateness: 1s}\nhealth: {unjoinable: {warn: 0.8, error: 0.9}}\n"
)

Event = Mapping[str, object]
Process = subprocess.Popen[str]


class Traffic:
    """Events of three streams with what goes wrong, and the rows that have to come of them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.queries = {f"q{n}": self.query(n) for n in range(EVENTS) if n % 10}  # some never come
        self.clicks = {f"k{n}": self.click(n) for n in range(EVENTS) if n % 7}
        self.conversions = {f"c{n}": self.conversion(n) for n in range(0, EVENTS, 2)}

    def query(self, n: int) -> Event:
        return {"query_id": f"q{n}", "at": BEGIN_S + n, "text": f"words {n}"}

    def click(self, n: int) -> Event:
        return {"click_id": f"k{n}", "query_id": f"q{n}", "at": BEGIN_S + n, "position": n % 5}

    def conversion(self, n: int) -> Event:
        return {"conversion_id": f"c{n}", "click_id": f"k{n}", "at": BEGIN_S + n, "cents": n}

    def expected(self) -> dict[str, tuple[object, object]]:
        """Cents and query of each conversion whose click has a query."""
        found = {}
        for name, conversion in self.conversions.items():
            click = self.clicks.get(str(conversion["click_id"]))
            query = self.queries.get(str(click["query_id"])) if click is not None else None
            if query is not None:
                found[name] = (conversion["cents"], query["text"])
        return found

    def pieces(self) -> Iterator[dict[str, list[Event]]]:
        """The logs piece by piece: queries come late, and some conversions twice."""
        for start in range(0, EVENTS + LATE, BATCH):
            piece: dict[str, list[Event]] = {
                "queries": self._of(self.queries, "q", start - LATE),
                "clicks": self._of(self.clicks, "k", start),
                "conversions": self._of(self.conversions, "c", start),
            }
            piece["conversions"] += self.rng.sample(piece["conversions"], len(piece["conversions"]) // 4)
            yield {kind: self.rng.sample(events, len(events)) for kind, events in piece.items()}
        last = EVENTS + 60  # all is over: times beyond all others, in both logs of the first pipeline
        yield {"queries": [self.query(last), self.query(last + 60)], "clicks": [self.click(last)]}

    def _of(self, events: Mapping[str, Event], letter: str, start: int) -> list[Event]:
        names = (f"{letter}{n}" for n in range(start, start + BATCH))
        return [events[name] for name in names if name in events]


class Chain:
    """The example's two pipelines, a process for each datacenter of both, and two followers between them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        made = shutil.ignore_patterns("logs", "lake", "state")
        shutil.copytree(ROOT / "examples" / "three_streams", folder, ignore=made)
        self.folder, self.stack = folder, stack
        self.first, self.second = folder / "clicks.yaml", folder / "conversions.yaml"
        for file, more in ((self.first, FIRST), (self.second, SECOND)):
            file.write_text(file.read_text() + more)
        self.processes: dict[tuple[str, str], Process] = {}

    def start(self, what: str, name: str) -> None:
        begun: AbstractContextManager[Process]
        if what == "follower":
            begun = running("follow", self.first, "--to", self.folder / "logs" / name / "joined_clicks")
        else:
            file = self.first if what == "first" else self.second
            begun = running("join", file, "-d", name, "--engine", "local")
        self.processes[what, name] = self.stack.enter_context(begun)

    def kill(self, *which: tuple[str, str]) -> None:
        for one in which:
            assert self.processes[one].poll() is None
            kill(self.processes[one])

    def log(self, piece: Mapping[str, Iterable[Event]]) -> None:
        for name in DATACENTERS:
            for kind, events in piece.items():
                path = self.folder / "logs" / name / kind / "a.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write("".join(json.dumps(event) + "\n" for event in events))

    def has_begun(self) -> bool:
        """Whether the second pipeline has a row. On a busy machine one datacenter may write all of them."""
        places = load_pipeline(self.second).datacenters.values()
        tables = (place.lake / "joined_events" for place in places)
        return any(is_table(table) and open_table(table).count() for table in tables)

    def pending(self) -> int:
        told = photon_json("status", self.second)
        return sum(told[name]["counts"]["pending"] for name in DATACENTERS)

    def given_up(self) -> set[str]:
        """The conversions that some datacenter of the second pipeline ever gave up."""
        tables = [
            open_table(place.lake / "unjoined").to_pyarrow_table()
            for place in load_pipeline(self.second).datacenters.values()
        ]
        return set(pa.concat_tables(tables)["event_id"].to_pylist())


def test_rows_of_three_streams_are_exact_though_a_datacenter_of_each_and_a_follower_are_killed(
    tmp_path: Path,
) -> None:
    traffic = Traffic(seed=1)
    with ExitStack() as stack:
        chain = Chain(tmp_path / "chain", stack)
        pieces = list(traffic.pieces())
        chain.log(pieces[0])
        for name in DATACENTERS:
            for what in ("first", "follower", "second"):
                chain.start(what, name)
        killed = (("first", "west"), ("second", "east"), ("follower", "east"))
        for number, piece in enumerate(pieces[1:], start=1):
            chain.log(piece)
            if number == len(pieces) // 2:
                assert soon(chain.has_begun, PATIENCE_SECONDS), "no row of the second pipeline"
                chain.kill(*killed)
            elif number == len(pieces) // 2 + 2:
                for one in killed:
                    chain.start(*one)
            time.sleep(0.5)  # logs grow while they are joined: there is no clock to inject
        expected = traffic.expected()
        assert soon(lambda: joined_rows(chain.second).num_rows >= len(expected), PATIENCE_SECONDS)
        assert soon(lambda: chain.pending() == 0, PATIENCE_SECONDS)
        for (what, _), process in chain.processes.items():
            assert stop(process) == 0 or what == "follower"
    rows = joined_rows(chain.second).to_pylist()
    assert {row["_event_id"]: (row["cents"], row["query"]) for row in rows} == expected
    assert len(rows) == len(expected)
    assert chain.given_up() == traffic.conversions.keys() - expected.keys()
    for file in (chain.first, chain.second):
        report = photon_json("verify", file)
        for name in DATACENTERS:
            assert (report[name]["violations"], report[name]["findings"]) == ([], [])
    assert photon("status", chain.second).stdout.startswith("All is well")
