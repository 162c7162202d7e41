"""Which gzip files are whole, so that they are log files: only those are read (protocol D3)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

from photon.logs.discovery import FileProblem, FoundFile
from photon.logs.gzips import CorruptGzip, GzipStream, NotClosedYet
from photon.logs.source import LogsUnavailable, StoredBytes, problem_of
from photon.logs.unread_files import ENDS_EARLY
from photon.process.clock import microseconds

# Decompressed in one look, to see which gzip files are whole. No batch begins during a look: it is short.
GZIP_LOOK_BYTES = 32 * 2**20
_STEP_BYTES = 2**20

_Verdict = int | FileProblem | None  # decompressed size; what is wrong with it; not closed yet


class WholeGzips:
    """Which gzip files are whole: only those are log files (protocol D3).

    One that ends early is still being written, or was left behind half done: reading it now would lose its
    rest. To find out, decompress it once, a bounded piece at each look. Between looks this remembers what it
    found of each gzip file that is no log file yet.
    """

    def __init__(
        self,
        open_stored: Callable[[FoundFile], AbstractContextManager[StoredBytes]],
        idle_after: timedelta | None,
    ) -> None:
        """`idle_after`: then a file that ends early is not waited for; None: it never grows."""
        self._open = open_stored
        self._idle_us = -1 if idle_after is None else microseconds(idle_after)
        self._verdicts: dict[FoundFile, _Verdict] = {}
        self._checks: dict[FoundFile, GzipStream] = {}  # read to their ends, look by look
        self._seen_us: dict[FoundFile, int] = {}  # when each that ends early was seen first
        self._budget_bytes = 0
        self._asked: set[FoundFile] = set()
        self.pending = False  # a check is under way: the next look will know more

    def begin_look(self, unbounded: bool) -> None:
        """Forget the files that the last look did not ask for; start with a fresh budget."""
        for file in self._checks.keys() - self._asked:
            del self._checks[file]
        self._verdicts = {file: verdict for file, verdict in self._verdicts.items() if file in self._asked}
        self._seen_us = {file: seen_us for file, seen_us in self._seen_us.items() if file in self._asked}
        self._asked = set()
        self._budget_bytes = 2**62 if unbounded else GZIP_LOOK_BYTES
        self.pending = False

    def size_bytes(self, file: FoundFile) -> _Verdict:
        """The decompressed size of a whole gzip file, or what is wrong with it, or None: ask again.

        LogsUnavailable.
        """
        self._asked.add(file)
        if file not in self._verdicts and not self._check(file):
            self.pending = True
            return None
        verdict = self._verdicts[file]
        return FileProblem(file.path, ENDS_EARLY) if verdict is None else verdict

    def was_refused(self, file: FoundFile) -> bool:
        """Whether a file could not be opened or read when it was asked for: that may be otherwise later."""
        return file not in self._asked

    def is_unfinished(self, file: FoundFile, now_us: int, final: bool) -> bool:
        """Whether a file that ends early may still be written: it was, within the time that counts as idle.

        It was written when it says so, or when it was seen first: clocks may be wrong.
        """
        if final or self._verdicts.get(file, 0) is not None:
            return False
        since_us = min(file.modified_ns // 1000, self._seen_us.setdefault(file, now_us))
        return now_us - since_us <= self._idle_us

    def _check(self, file: FoundFile) -> bool:
        """Decompress on within the budget; whether the check has ended."""
        if self._budget_bytes <= 0:
            return False
        verdict: _Verdict = None
        try:
            stream = self._checks.setdefault(file, GzipStream())
            verdict = self._advance(file, stream)
            if verdict is None:
                return False
        except NotClosedYet:
            pass
        except LogsUnavailable:
            raise
        except (OSError, CorruptGzip) as error:
            verdict = problem_of(file.path, error)
            if isinstance(error, OSError):
                self._asked.discard(file)  # permission may be given later: look again
        self._verdicts[file] = verdict
        self._checks.pop(file, None)
        return True

    def _advance(self, file: FoundFile, stream: GzipStream) -> int | None:
        """Read on within the budget: the decompressed size, or None if the budget was too small."""
        with self._open(file) as stored:
            while self._budget_bytes > 0:
                step_bytes = len(stream.read(stored, _STEP_BYTES))
                if step_bytes == 0:
                    return stream.at_bytes
                self._budget_bytes -= step_bytes
        return None
