"""The findings of runs, as commands and Dagster tell them; and why there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from photon.process.clock import in_iso, in_utc
from photon.process.errors import UserError
from photon.process.readable import counted

_ADDED = ("runs", "candidates", "late", "conflicting", "unfit")


class HeldBack(UserError):
    """No primary can be called unmatched now; the message says why, and what to do. Nothing was changed."""


@dataclass(frozen=True)
class UnmatchedFound:
    """The findings of one command's runs. `up_to_us`: primaries before it are decided; None: none is yet.

    `unmatched`: rows by their reason. `late`: those of them that came when the time before was decided.
    `looked_at_all`: why, if so. `held_back`: why not all is decided that is old enough.
    """

    owner: str
    epoch: int
    release: int
    up_to_us: int | None = None
    since_us: int | None = None
    held_back: str = ""
    looked_at_all: str = ""
    runs: int = 0
    candidates: int = 0
    unmatched: Counter[str] = field(default_factory=Counter)
    late: int = 0
    conflicting: int = 0
    unreadable: int = 0
    unreadable_files: tuple[str, ...] = ()
    unfit: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Its numbers, by name."""
        names = ("candidates", "late", "conflicting", "unreadable", "unfit")
        return {"unmatched": self.unmatched.total(), **{name: getattr(self, name) for name in names}}

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        times = (("up_to", self.up_to_us), ("since", self.since_us))
        return {
            "owner": self.owner,
            "epoch": self.epoch,
            "release": self.release,
            **{name: None if at_us is None else in_iso(at_us, "seconds") for name, at_us in times},
            "held_back": self.held_back,
            "looked_at_all": self.looked_at_all,
            "runs": self.runs,
            **self.counts,
            "reasons": dict(self.unmatched),
            "unreadable_files": list(self.unreadable_files),
        }

    def after(self, other: UnmatchedFound) -> UnmatchedFound:
        """Both together; `other` came first."""
        return replace(
            self,
            looked_at_all=other.looked_at_all or self.looked_at_all,
            unmatched=other.unmatched + self.unmatched,
            **{name: getattr(other, name) + getattr(self, name) for name in _ADDED},
        )

    def sentences(self, dry_run: bool) -> Sequence[str]:
        """All of it for people."""
        decided = "no time yet" if self.up_to_us is None else in_utc(self.up_to_us, "minutes")
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.unmatched.most_common())
        new = counted(self.unmatched.total(), "primary", "would be" if dry_run else "are")
        would_be = "would be " if dry_run else ""
        lines = [
            f"unmatched primaries, by datacenter {self.owner}: {would_be}decided up to {decided}",
            f"{new} new, of {counted(self.candidates, 'candidate')}" + (f" ({reasons})" if reasons else ""),
        ]
        if self.late:
            lines.append(f"{self.late:,} of them came late: the time before was decided then")
        if self.conflicting:
            lines.append(f"{counted(self.conflicting, 'primary', 'were')} logged again with another content")
        if self.unfit:
            lines.append(f"{counted(self.unfit, 'value')} did not fit the columns, and are null")
        if self.since_us is not None:
            since = in_utc(self.since_us, "minutes")
            lines.append(f"none before {since} counts: rows of an earlier version name no primary")
        if self.looked_at_all:
            lines.append(f"the whole index was looked at: {self.looked_at_all}")
        if self.held_back:
            lines.append(f"no more for now: {self.held_back}")
        return lines
