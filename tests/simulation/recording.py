"""A record of what a client asked of a registry and was told, which a kill -9 does not lose.

One line before each call and one after it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from photon.ledger.errors import RegistryUnavailable
from photon.registry.interface import Claim, IdRegistry, Unknown
from tests.simulation.history import Kind, Operation, in_words


@dataclass(frozen=True, slots=True)
class _Begun:
    kind: Kind
    ids: tuple[str, ...]
    tokens: tuple[str, ...]
    begin: float


class Recorder:
    """Calls of one client, recorded at the end of `path`. Times are of the machine's monotonic clock."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._call = 0

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def commit(self, registry: IdRegistry, claims: Sequence[Claim]) -> Sequence[object]:
        """Commit; the outcomes."""
        return self._record("commit", claims, lambda: registry.commit(claims))

    def release(self, registry: IdRegistry, claims: Sequence[Claim]) -> Sequence[object]:
        """Release; the outcomes."""
        return self._record("release", claims, lambda: registry.release(claims))

    def lookup(self, registry: IdRegistry, claims: Sequence[Claim]) -> Sequence[object]:
        """Look up the ids of these claims; the outcomes, all unknown if the registry did not answer."""
        return self._record("lookup", claims, lambda: registry.lookup([claim.key for claim in claims]))

    def clear(self, registry: IdRegistry, claims: Sequence[Claim]) -> Sequence[object]:
        """Clear: "cleared" for each, or all unknown."""

        def clear() -> list[object]:
            registry.clear(claims)
            return ["cleared"] * len(claims)

        return self._record("clear", claims, clear)

    def _record(
        self, kind: Kind, claims: Sequence[Claim], call: Callable[[], Sequence[object]]
    ) -> Sequence[object]:
        self._call += 1
        ids, tokens = [claim.key.id for claim in claims], [claim.token for claim in claims]
        self._write([self._call, kind, ids, tokens, time.monotonic()])
        try:
            outcomes = call()
        except RegistryUnavailable as error:
            outcomes = [Unknown(str(error))] * len(claims)
        self._write([self._call, time.monotonic(), [in_words(outcome) for outcome in outcomes]])
        return outcomes

    def _write(self, line: list[object]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()  # what the kernel has outlives the process


def read_recordings(paths: Iterable[Path]) -> list[Operation]:
    """All operations in these recordings; what was cut off by a kill is unknown."""
    return [operation for path in paths for operation in _read(path)]


def _read(path: Path) -> Iterable[Operation]:
    begun: dict[int, _Begun] = {}
    for line in path.read_text().splitlines():
        try:
            call, *rest = json.loads(line)
        except ValueError:
            continue  # the line during which it was killed
        if len(rest) == 4:
            kind, ids, tokens, begin = rest
            begun[call] = _Begun(kind, tuple(ids), tuple(tokens), begin)
            continue
        end, answers = rest
        one = begun.pop(call)
        for event_id, token, (answer, holder) in zip(one.ids, one.tokens, answers, strict=True):
            moment = math.inf if answer == "unknown" else end
            yield Operation(one.kind, event_id, token, one.begin, moment, answer, holder)
    for one in begun.values():
        for event_id, token in zip(one.ids, one.tokens, strict=True):
            yield Operation(one.kind, event_id, token, one.begin, math.inf, "unknown")
