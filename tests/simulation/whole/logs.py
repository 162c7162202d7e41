"""Write logs as servers do: the same events in every datacenter, late, in other orders and files."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from photon.state.database import STATE_FILE, StateReader
from tests.simulation import log_lines
from tests.simulation.whole.site import Site

LATEST_SECONDS = 15.0  # one datacenter may get a line so much later than another
A_QUERY_IS_LATE = 0.3  # share of queries that are logged later than their clicks
LOGGED_TWICE = 0.15  # share of clicks
OF_SEVERAL_KEYS = 0.3  # share of seeds in which clicks may have records that name other queries
SEVERAL_RECORDS = 0.4  # share of such a seed's clicks that have them
NEVER = 0.08  # share of clicks whose query is never logged
ROTATED = 0.1  # share of lines before which their log is rotated
CUT_SHORT = 0.1  # share of lines whose rest comes later
WRITTEN_TO_LATE = 0.5  # share of logs rotated out of sight that their old writer gives one more line
MOST_QUERIES, MOST_CLICKS = 4, 6  # in one burst


@dataclass
class Writers:
    """All that is logged in one seed."""

    site: Site
    queries: int = 0
    clicks: dict[str, list[str]] = field(default_factory=dict)  # each with the queries that its records name
    logged: set[str] = field(default_factory=set)  # queries that get into the logs
    incomplete: set[str] = field(default_factory=set)  # datacenters that have lost a log
    # The epochs in which logs of a datacenter were moved away: a later one has never seen them.
    out_of_sight: dict[str, set[str]] = field(default_factory=dict)
    written: Counter[str] = field(default_factory=Counter)  # foreign records by datacenter
    broken: Counter[str] = field(default_factory=Counter)  # those among them that are none
    generations: Counter[str] = field(default_factory=Counter)
    _lines: int = 0
    _rest: dict[Path, bytes] = field(default_factory=dict)  # the rest of each log file's last line
    _moved: dict[Path, Path] = field(default_factory=dict)  # where each log went that gets one more line

    def __post_init__(self) -> None:
        # A generator of their own: seeds without these records keep their histories.
        self._records = random.Random(f"{self.site.seed}, records")
        self._has_several_keys = self._records.random() < OF_SEVERAL_KEYS

    @property
    def joinable(self) -> set[str]:
        """Return the events that must have a row in the end."""
        return {click for click, queries in self.clicks.items() if not self.logged.isdisjoint(queries)}

    def burst(self) -> None:
        """Log some queries and clicks from now on."""
        chance = self.site.chance
        new = [f"q{self.queries + number}" for number in range(chance.randrange(MOST_QUERIES + 1))]
        self.queries += len(new)
        self.logged.update(new)
        for query in new:
            late_seconds = chance.uniform(0, LATEST_SECONDS) if chance.random() < A_QUERY_IS_LATE else 0.0
            self._log("queries", query, late_seconds)
        for _ in range(chance.randrange(MOST_CLICKS + 1)):
            click = f"c{len(self.clicks)}"
            known = sorted(self.logged)
            never = not known or chance.random() < NEVER
            query = "never" if never else chance.choice(known[-8:])
            queries = [query] * (2 if chance.random() < LOGGED_TWICE else 1) + self._other_queries()
            self._records.shuffle(queries)
            self.clicks[click] = queries
            for query in queries:
                self._log("clicks", click, 0.0, query)

    def _other_queries(self) -> list[str]:
        """Draw the queries of a click's further records: logged ones, never logged ones, or later ones."""
        if not self._has_several_keys or self._records.random() >= SEVERAL_RECORDS:
            return []
        some = [f"q{self._records.randrange(self.queries + 3)}" for _ in range(3)] + ["never"] * 2
        return self._records.sample(some, self._records.randrange(1, 4))

    def _log(self, kind: str, name: str, late_seconds: float, query: str = "") -> None:
        site, time_us = self.site, self.site.now_us
        if kind == "clicks":
            site.times_us[name] = time_us
        self._lines += 1  # no two lines are alike: else a short file may be taken for another's copy
        record = {"query": name, "at": time_us, "text": f"text of {name}", "line": self._lines}
        if kind == "clicks":
            record = {"click": name, "query": query, "at": time_us, "line": self._lines}
        for datacenter in site.names:
            seconds = late_seconds + site.chance.uniform(0, 0.5)
            if site.chance.random() < 0.1:
                seconds += site.chance.uniform(0, LATEST_SECONDS)
            self.written[datacenter] += kind == "clicks"
            site.network.after(seconds, lambda d=datacenter: self._append(d, kind, record))  # type: ignore[misc]

    def break_a_line(self, datacenter: str) -> None:
        """Append a line that is no record: a dead letter."""
        log = self._log_of(datacenter, "clicks", self.site.chance.choice("ab"))
        if not log.exists() or not log.stat().st_size or log in self._moved:
            return
        self._finish(log)
        self.written[datacenter] += 1
        self.broken[datacenter] += 1
        log_lines.append(log, self.site.format, [f"broken {self.broken[datacenter]}\n"])
        self.site.stamp(log)

    def lose_a_log(self, datacenter: str) -> None:
        """Delete a log of foreign events, or empty it."""
        logs = sorted((self.site.folder / "logs" / datacenter / "clicks").iterdir())
        if logs:
            log = self.site.chance.choice(logs)
            self._rest.pop(log, None)
            if self.site.chance.random() < 0.5:
                log.unlink()
            else:
                log.write_text("")
                self.site.stamp(log)
            self.incomplete.add(datacenter)

    def move_a_log_away(self, datacenter: str) -> None:
        """Rotate a log that the state knows out of sight, with its unread lines."""
        epoch, known = self._known_logs(datacenter)
        folder = self.site.folder / "logs" / datacenter / "clicks"
        logs = sorted(log for log in folder.iterdir() if log.stat().st_ino in known)
        if not logs:
            return
        log, away = self.site.chance.choice(logs), self.site.out_of_sight(datacenter)
        away.mkdir(parents=True, exist_ok=True)
        moved = log.rename(away / f"{log.stat().st_ino}.{self.site.format}")
        self.out_of_sight.setdefault(datacenter, set()).add(epoch)
        if log in self._rest:
            self._rest[moved] = self._rest.pop(log)
            self.site.network.after(self.site.chance.uniform(0, 3), lambda: self._finish(moved))
        if self.site.chance.random() < WRITTEN_TO_LATE:
            self._moved[log] = moved

    def _known_logs(self, datacenter: str) -> tuple[str, set[int]]:
        """The epoch of a datacenter's state, and the inodes of the logs that it has seen and not missed."""
        folder = self.site.pipeline.datacenters[datacenter].state
        if not (folder / STATE_FILE).exists():
            return "", set()
        state = StateReader(folder)
        try:
            inodes = {each.file.inode for each in state.files().values() if each.state == "open"}
            return state.epoch or "", inodes
        finally:
            state.close()

    def _append(self, datacenter: str, kind: str, record: dict[str, object]) -> None:
        """Write a line, or the first part of it; before it the rest of the line before."""
        chance, format_ = self.site.chance, self.site.format
        log = self._log_of(datacenter, kind, chance.choice("ab"))
        log = self._moved.pop(log, log)
        is_here = log.exists() and log.parent.name == kind
        if chance.random() < ROTATED and log not in self._rest and is_here:
            self.generations[str(log)] += 1
            log.rename(log.with_suffix(f".{self.generations[str(log)]}.{format_}"))
        self._finish(log)
        log_lines.append(log, format_, [record])
        if chance.random() < CUT_SHORT:
            self._cut_short(log)
        self.site.stamp(log)

    def _log_of(self, datacenter: str, kind: str, stream: str) -> Path:
        return self.site.folder / "logs" / datacenter / kind / f"{stream}.{self.site.format}"

    def _cut_short(self, log: Path) -> None:
        """Take the end of the last line away again, for a while: as if it were being written."""
        text = log.read_bytes()
        start = text.rstrip(b"\r\n").rfind(b"\n") + 1
        at = self.site.chance.randrange(start, len(text))
        with log.open("r+b") as file:
            file.truncate(at)
        self._rest[log] = text[at:]
        self.site.network.after(self.site.chance.uniform(0, 3), lambda: self._finish(log))

    def _finish(self, log: Path) -> None:
        rest = self._rest.pop(log, b"")
        if rest:
            with log.open("ab") as file:
                file.write(rest)
            self.site.stamp(log)
