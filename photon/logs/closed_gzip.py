"""Which gzip files are whole: only those are log files (protocol D3).

A gzip file that ends early is still being written, or was left behind half done; reading it now would
lose its rest. To know, it is decompressed once, a bounded piece at each look.
"""

from __future__ import annotations

from pathlib import Path

from photon.logs.discovery import Problem, Sighting, reason_of
from photon.logs.source import CorruptGzip, GzipCheck, NotClosedYet
from photon.pipeline.file import Tailing

_Verdict = int | Problem | None  # decompressed size; what is wrong with it; not closed yet


class ClosedGzips:
    """Remembers, between looks, what is known of each gzip file that is not a log file yet."""

    def __init__(self, logs_folder: Path, tailing: Tailing, look_bytes: int) -> None:
        self._logs_folder = logs_folder
        self._look_bytes = look_bytes
        self._idle_us = round(tailing.idle_after.total_seconds() * 1e6)
        self._verdicts: dict[Sighting, _Verdict] = {}
        self._checks: dict[Sighting, GzipCheck] = {}
        self._budget_bytes = 0
        self._asked: set[Sighting] = set()
        self.unsettled = False  # a check is under way: the next look will know more

    def begin_look(self, unbounded: bool) -> None:
        """Forget the files that the last look did not ask for; start with a fresh budget."""
        for sighting in self._checks.keys() - self._asked:
            self._checks.pop(sighting).close()
        self._verdicts = {key: verdict for key, verdict in self._verdicts.items() if key in self._asked}
        self._asked = set()
        self._budget_bytes = 2**62 if unbounded else self._look_bytes
        self.unsettled = False

    def size_bytes(self, sighting: Sighting, now_us: int, final: bool) -> _Verdict:
        """The decompressed size of a whole gzip file, or what is wrong with it, or None: ask again later."""
        self._asked.add(sighting)
        if sighting not in self._verdicts and not self._check(sighting):
            self.unsettled = True
            return None
        verdict = self._verdicts[sighting]
        if verdict is None and (final or now_us - sighting.modified_ns // 1000 > self._idle_us):
            return Problem(sighting.path, "this gzip file ends early and does not grow; compress it again")
        return verdict

    def _check(self, sighting: Sighting) -> bool:
        """Decompress on, as far as the budget goes; whether there is a verdict now."""
        if self._budget_bytes <= 0:
            return False
        verdict: _Verdict
        try:
            check = self._checks.get(sighting) or GzipCheck(self._logs_folder / sighting.path)
            self._checks[sighting] = check
            verdict, read_bytes = check.advance(self._budget_bytes)
            self._budget_bytes -= read_bytes
            if verdict is None:
                return False
        except NotClosedYet:
            verdict = None
        except CorruptGzip as error:
            verdict = Problem(sighting.path, f"not a sound gzip file: {error}")
        except OSError as error:
            verdict = Problem(sighting.path, reason_of(error))
            self._asked.discard(sighting)  # permission may be given later: look again
        self._verdicts[sighting] = verdict
        if sighting in self._checks:
            self._checks.pop(sighting).close()
        return True
