"""Findings about two logs, with how sure they are, and questions that only a person can answer."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

Sureness = Literal["sure", "likely"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Columns that are proposed."""

    what: str  # such as foreign id
    columns: tuple[str, ...]
    sure: Sureness
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {', '.join(self.columns)} ({self.sure}: {self.why})"


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question to a person: nothing in the sample answers it."""

    options: tuple[str, ...]  # that say it together, such as --foreign-id
    why: str
    choices: tuple[tuple[str, ...], ...] = ()  # likely answers: a value for each option

    def __str__(self) -> str:
        likely = " or ".join(map(self.said, self.choices))
        then = " If so, say" if self.why.endswith("?") else ": say"
        return f"{self.why}{then} {likely or self.said(('COLUMN',) * len(self.options))}"

    def said(self, answers: tuple[str, ...]) -> str:
        """The options with answers, as they can be typed."""
        return " ".join(
            f"{option} {shlex.quote(answer)}" for option, answer in zip(self.options, answers, strict=True)
        )
