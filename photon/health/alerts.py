"""What people are told, and their function that is told it (`alerts.hook` of the pipeline file)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from photon.clock import in_utc
from photon.errors import WrongUsage
from photon.health.verdicts import Level
from photon.join.adapting import AdapterNotFound, load_module
from photon.pipeline.file import Pipeline

Kind = Literal["check", "run", "freshness"]


@dataclass(frozen=True)
class Alert:
    """One thing that began to be wrong, or that is over (`level` ok)."""

    pipeline: str
    kind: Kind
    subject: str  # the check, the job or the table that it is of
    level: Level
    text: str  # what was seen, and what to do
    at_us: int  # microseconds since 1970 UTC
    run: str = ""  # of Dagster, where there is one

    @property
    def title(self) -> str:
        """One line: [ERROR] clicks: health east__works."""
        word = {"ok": "OK AGAIN", "warn": "WARNING", "error": "ERROR"}[self.level]
        return f"[{word}] {self.pipeline}: {self.subject}"

    def as_dict(self) -> dict[str, Any]:
        """For messages in JSON."""
        return {"title": self.title, **asdict(self), "at": in_utc(self.at_us, "seconds")}


Hook = Callable[[Alert], None]


class HookNotFound(WrongUsage):
    """`alerts.hook` names no function that can be called."""


def load_hook(pipeline: Pipeline) -> Hook | None:
    """The user's function, also of a module beside the pipeline file; None if none is named. HookNotFound."""
    spec = pipeline.alerts.hook
    if spec is None:
        return None
    module_name, _, name = spec.partition(":")
    try:
        found = getattr(load_module(module_name, pipeline.file.parent), name, None)
    except AdapterNotFound as error:
        raise HookNotFound(str(error).replace("adapter:", "alerts.hook:", 1)) from error
    if not callable(found):
        raise HookNotFound(f"alerts.hook: {spec}: expected a function in {module_name}, got {found!r}")
    hook: Hook = found
    return hook


def news(seen: Iterable[Alert], levels: Mapping[str, str]) -> list[Alert]:
    """What to tell of what was seen: what is worse or better than before. What was always well is no news."""
    return [alert for alert in seen if alert.level != levels.get(f"{alert.kind} {alert.subject}", "ok")]


def levels_after(seen: Iterable[Alert]) -> dict[str, str]:
    """What `news` compares the next time."""
    return {f"{alert.kind} {alert.subject}": alert.level for alert in seen}
