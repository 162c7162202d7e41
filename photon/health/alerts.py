"""Alerts for people, and the user's function that takes each (`alerts.hook` of the pipeline file)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from photon.adapters.user_modules import load_module
from photon.health.verdict import Level
from photon.process.clock import in_iso
from photon.process.errors import WrongUsage

Kind = Literal["check", "run", "freshness", "tick"]


@dataclass(frozen=True)
class Alert:
    """One subject that went wrong, is wrong still, or is well again (`level` ok)."""

    pipeline: str
    kind: Kind
    subject: str  # the check, job, table, sensor or schedule
    level: Level
    text: str  # the finding, and what to do
    at_us: int  # microseconds since 1970 UTC
    run: str = ""  # Dagster's run that failed, or that evaluated the check; empty: none
    again: bool = False  # whether people were told before, and it goes on

    @property
    def key(self) -> str:
        """Identify the subject: every alert on it has this key, whatever its level."""
        return f"{self.kind} {self.subject}"

    @property
    def title(self) -> str:
        """One line, such as `[ERROR] clicks: health east__works`."""
        word = {"ok": "OK AGAIN", "warn": "WARNING", "error": "ERROR"}[self.level]
        return f"[{'STILL ' if self.again else ''}{word}] {self.pipeline}: {self.subject}"

    def as_dict(self) -> dict[str, Any]:
        """The fields and the title, for messages in JSON."""
        return {"title": self.title, **asdict(self), "at": in_iso(self.at_us, "seconds")}


Hook = Callable[[Alert], None]


class HookNotFound(WrongUsage):
    """`alerts.hook` names no function that can be called."""


def load_hook(spec: str, folder: Path) -> Hook:
    """Load the function `module:function`; the pipeline file's folder may have the module. HookNotFound."""
    module_name, _, name = spec.partition(":")
    found = getattr(load_module(module_name, folder, "alerts.hook", HookNotFound), name, None)
    if not callable(found):
        raise HookNotFound(f"alerts.hook: {spec}: expected a function in {module_name}, got {found!r}")
    hook: Hook = found
    return hook


@dataclass(frozen=True)
class ToldAlert:
    """The last alert on one subject."""

    level: str
    at_us: int


def news(seen: Iterable[Alert], told: Mapping[str, ToldAlert], now_us: int, again_us: int) -> list[Alert]:
    """Choose alerts of another level than was told, and those that go on `again_us` after they were told.

    A subject that was always well is no news.
    """
    found = []
    for alert in seen:
        last = told.get(alert.key)
        if alert.level != (last.level if last else "ok"):
            found.append(alert)
        elif last and alert.level != "ok" and now_us - last.at_us >= again_us:
            found.append(replace(alert, again=True))
    return found


def told_after(fresh: Iterable[Alert], told: Mapping[str, ToldAlert], now_us: int) -> dict[str, ToldAlert]:
    """Put these alerts, told now, in the place of the last ones on their subjects."""
    return {**told, **{alert.key: ToldAlert(alert.level, now_us) for alert in fresh}}
