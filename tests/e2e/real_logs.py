"""Real logs of a network under attack, laid out as datacenters' folders of files.

TLS sessions (primary) and what Zeek noticed of the same connections (foreign), see README.txt in their
folder. The data is not part of the project: it is found by PHOTON_REAL_LOGS, the folder itself or the one
above it, or beside the repository. Where it is not, tests make logs of the same form, with fewer records.
DuckDB, not the engine, works out the right rows of a join.
"""

from __future__ import annotations

import csv
import gzip
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER_VARIABLE = "PHOTON_REAL_LOGS"
SET_FOLDER = "zeek_wrccdc"
PRIMARY_FILE = "primary_ssl.csv.gz"
FOREIGN_FILE = "secondary_events.csv.gz"
JOINED = 44_453  # README.txt: foreign events whose primary is there
UNJOINABLE = 1_478  # foreign events whose primary is not there
PRIMARY = 49_474

KIND_STREAMS = {"weird": 2, "analyzer": 2, "rdp": 1, "smtp": 1}  # files per kind of foreign event
MADE_PRIMARY = 40_000
RUN_LINES = 50  # so many lines in a row go to one file: servers write in bursts
_KIND_COLUMN = 3

Files = Mapping[str, bytes]  # whole files by their path below a datacenter's logs folder


@dataclass(frozen=True, slots=True)
class RealExpectation:
    """Rows and ids that a join of all the real logs must lead to."""

    joined: pa.Table  # foreign columns, then primary ones with primary_, all text; sorted by event_id
    unjoinable: frozenset[str]  # event ids


@dataclass(frozen=True, slots=True)
class RealLogs:
    """The folder of the real logs, or of made ones, and what a join of them leads to."""

    folder: Path
    joined: int = JOINED
    unjoinable: int = UNJOINABLE
    primary: int = PRIMARY

    @staticmethod
    def open_or_make(folder: Path) -> RealLogs:
        """Find the real logs; make some in `folder` where this machine has none."""
        return RealLogs.open() or made(folder)

    @staticmethod
    def open() -> RealLogs | None:
        """Find the real logs, if this machine has them. FileNotFoundError if a named folder has none."""
        said = os.environ.get(FOLDER_VARIABLE)
        folder = Path(said or Path(__file__).resolve().parents[3] / "shared" / "data")
        for place in (folder, folder / SET_FOLDER):
            if (place / PRIMARY_FILE).is_file() and (place / FOREIGN_FILE).is_file():
                return RealLogs(place)
        if said:
            raise FileNotFoundError(
                f"{FOLDER_VARIABLE} is {said}: {PRIMARY_FILE} and {FOREIGN_FILE} are neither there nor in"
                f" {SET_FOLDER} below it"
            )
        return None

    def lay_out(self, folder: Path, datacenters: Sequence[str] = ("east", "west")) -> None:
        """Write the logs below `folder`/logs/DATACENTER: the same lines, spread over files differently."""
        for index, name in enumerate(datacenters):
            for path, data in {**self._primary_files(3 + index, index), **self._foreign_files(index)}.items():
                file = folder / "logs" / name / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)

    def expectation(self) -> RealExpectation:
        """The join of the original files, by DuckDB, with every value as the text in the log."""
        import duckdb

        connection = duckdb.connect()
        for name, file in (("p", PRIMARY_FILE), ("f", FOREIGN_FILE)):
            source = connection.read_csv(str(self.folder / file), all_varchar=True, header=True)
            source.select("coalesce(columns(*), '')").create(name)  # DuckDB reads empty text as null
        columns = connection.table("p").columns
        primary = ", ".join(f'p."{name}" as "primary_{name}"' for name in columns)
        joined = connection.sql(
            f"select f.*, {primary} from f join p on f.key = p.key order by f.event_id"
        ).to_arrow_table()
        orphans = connection.sql("select event_id from f where key not in (select key from p)").fetchall()
        connection.close()
        return RealExpectation(joined, frozenset(event_id for (event_id,) in orphans))

    def _primary_files(self, streams: int, shift: int) -> Files:
        header, lines = _lines(self.folder / PRIMARY_FILE)
        return _spread("ssl/ssl", header, lines, streams, shift)

    def _foreign_files(self, shift: int) -> Files:
        header, lines = _lines(self.folder / FOREIGN_FILE)
        by_kind: dict[str, list[bytes]] = {kind: [] for kind in KIND_STREAMS}
        for line in lines:  # no column before `kind` has a comma in it
            by_kind[line.split(b",", _KIND_COLUMN + 1)[_KIND_COLUMN].decode()].append(line)
        files: dict[str, bytes] = {}
        for kind, of_kind in by_kind.items():
            files |= _spread(f"events/{kind}", header, of_kind, KIND_STREAMS[kind] + shift, shift)
        return files


def made(folder: Path) -> RealLogs:
    """Make logs of the same form: every third session has two events, and every thirtieth event none."""
    chance, began = random.Random(1), 1521911720.0
    folder.mkdir(parents=True, exist_ok=True)
    keys = [f"C{chance.getrandbits(64):016x}" for _ in range(MADE_PRIMARY)]
    sessions = [
        [seq, key, began + seq / 40, began + seq / 40, "b919171cc6da", 39611 + seq % 999, "TLSv10", "T"]
        for seq, key in enumerate(keys)
    ]
    named = [key for index, key in enumerate(keys) for _ in range(2 if index % 3 == 0 else 1)]
    orphans = [f"X{chance.getrandbits(64):016x}" for _ in range(len(named) // 30)]
    kinds = list(KIND_STREAMS)
    events = []
    for seq, key in enumerate(chance.sample([*named, *orphans], len(named) + len(orphans))):
        kind, at = chance.choice(kinds), began + chance.uniform(0, MADE_PRIMARY / 40)
        events.append([seq, f"{kind}:{seq}", key, kind, round(at, 6), at, f'["{kind}", "", "TCP"]'])
    for file, header, rows in (
        (PRIMARY_FILE, "seq,key,event_ts,arrival_ts_est,orig_hash,orig_port,version,established", sessions),
        (FOREIGN_FILE, "seq,event_id,key,kind,event_ts,arrival_ts_est,detail_json", events),
    ):
        with gzip.open(folder / file, "wt", newline="") as text:
            csv.writer(text, lineterminator="\n").writerows([header.split(","), *rows])
    return RealLogs(folder, len(named), len(orphans), len(keys))


def write_pipeline(folder: Path, datacenters: Sequence[str] = ("east", "west"), more: str = "") -> Path:
    """Write `folder`/pipeline.yaml for a layout in `folder`, with `more` at its end, and return its path."""
    names = "\n".join(f"  {name}: {{logs: logs/{name}}}" for name in datacenters)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pipeline.yaml"
    path.write_text(_PIPELINE.format(datacenters=names) + more)
    return path


def _lines(path: Path) -> tuple[bytes, list[bytes]]:
    """Header and lines of a file, each with its line end. No value in these files has a newline in it."""
    with gzip.open(path) as file:
        lines = file.read().splitlines(keepends=True)
    return lines[0], lines[1:]


def _spread(stem: str, header: bytes, lines: list[bytes], streams: int, shift: int) -> Files:
    """The lines in runs over so many files, each with the header."""
    files: list[list[bytes]] = [[header] for _ in range(streams)]
    run_lines = RUN_LINES + 7 * shift
    for start in range(0, len(lines), run_lines):
        files[start // run_lines % streams].extend(lines[start : start + run_lines])
    return {f"{stem}-{number}.csv": b"".join(parts) for number, parts in enumerate(files)}


_PIPELINE = """\
name: tls_events
datacenters:
{datacenters}
primary:
  files: "ssl/**/*.csv"
  format: csv
  id: key
  time: event_ts
  time_unit: s
foreign:
  files: "events/**/*.csv"
  format: csv
  id: event_id
  key: key
  time: event_ts
  time_unit: s
"""
