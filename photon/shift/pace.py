"""How far a piece of work is, in words: share, rate and time left. Where they are shown, commands decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from photon.shift.growth import Growth
from photon.shift.standing import size, span


def pace(
    done: int, total: int | None, seconds: float, in_words: Callable[[int], str] = size, grown: int = 0
) -> str:
    """A sentence such as "40 % of 1.2 GiB, 85 MiB/s, 9 s left".

    `done` of `total` took `seconds`; total None: nobody knows it. `in_words`: an amount for people, with its
    unit. `grown`: how much of `total` was added meanwhile: as much is expected to come.
    """
    if total is not None and 100 * done < total:
        # It starts up: the first seconds of a join of 48 MiB would say "27 days left".
        return f"0 % of {in_words(total)}"
    rate = done / seconds if seconds > 0 else 0.0
    a_second = f"{in_words(round(rate))}/s" if round(rate) > 0 else ""
    if total is None:
        parts = [in_words(done), a_second]
    elif done >= total:
        parts = [f"all of {in_words(total)}"]  # a rate would sink while what comes afterwards is done
    else:
        # Rounded down: 100 % would say that it is done.
        share = f"{100 * done // total} % of {in_words(total)}"
        parts = [share, a_second, _left(total - done, done - grown, seconds)]
    return ", ".join(part for part in parts if part)


def _left(left: int, nearer: int, seconds: float) -> str:
    """When the end is reached that came nearer by so much in these seconds."""
    if seconds <= 0:
        return ""
    return f"{span(left * seconds / nearer)} left" if nearer > 0 else "as much comes as is done"


@dataclass(frozen=True)
class LogsRead:
    """How far the logs of some datacenters are read."""

    read_bytes: int
    all_bytes: int
    joined: int

    @classmethod
    def of(cls, looks: list[Growth]) -> LogsRead | None:
        """Of all datacenters together; None where one of them can't be looked at just now."""
        if any(look.problems for look in looks):
            return None
        logs = [log for look in looks for log in (look.primary, look.foreign)]
        all_bytes = sum(log.bytes for log in logs)
        unread_bytes = sum(log.unread_bytes for log in logs)
        return cls(all_bytes - unread_bytes, all_bytes, sum(look.state.counts.of("joined") for look in looks))

    def since(self, first: LogsRead, seconds: float) -> str:
        """What was read in the seconds since a first look: earlier joins don't count as its pace."""
        # A log that was read and deleted meanwhile takes its bytes along.
        done, total = max(0, self.read_bytes - first.read_bytes), max(0, self.all_bytes - first.read_bytes)
        grown = max(0, self.all_bytes - first.all_bytes)
        told = pace(done, total, seconds, grown=grown)
        return f"reads logs: {told}; {self.joined - first.joined:,} joined"
