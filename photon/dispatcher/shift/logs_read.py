"""How far logs are read, in words, for a join that has an end."""

from __future__ import annotations

from dataclasses import dataclass

from photon.dispatcher.shift.growth import Growth
from photon.process.pace import pace


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
        # The bytes of a log that was read and then deleted count no more.
        done, total = max(0, self.read_bytes - first.read_bytes), max(0, self.all_bytes - first.read_bytes)
        grown = max(0, self.all_bytes - first.all_bytes)
        told = pace(done, total, seconds, grown=grown)
        return f"reads logs: {told}; {self.joined - first.joined:,} joined"
