"""A source that a datacenter lands, at one moment: what is told of all kinds alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from photon.dispatcher.shift.lease import LeaseStatus
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS


@dataclass(frozen=True, kw_only=True)
class SourceSeen(ABC):
    """A topic, or objects."""

    looked_us: int = 0
    shift: LeaseStatus = field(default_factory=LeaseStatus)  # Dagster's that lands it, or did last

    @property
    @abstractmethod
    def source(self) -> str:
        """Its kind and name, for people."""

    @property
    @abstractmethod
    def lag(self) -> int | None:
        """How much of it is not landed; None: nobody knows."""

    @property
    @abstractmethod
    def behind_us(self) -> int | None:
        """For how long at most something is not landed; None: nobody knows."""

    @property
    @abstractmethod
    def losses(self) -> int:
        """How many losses nobody has acknowledged."""

    @abstractmethod
    def sentence(self) -> str:
        """How far it is landed, for people."""

    def as_dict(self) -> dict[str, Any]:
        """The same for status and the live page."""
        behind_us = self.behind_us
        return {
            "source": self.source,
            "lag": self.lag,
            "behind_seconds": None if behind_us is None else behind_us / MICROSECONDS,
            "losses": self.losses,
            "says": self.sentence(),
        }

    def start(self, pipeline: Pipeline, datacenter: str) -> str:
        """Say what to do so that somebody lands it."""
        if self.shift.lease is not None and self.shift.lease.run:
            return f"let it run: Dagster's sensor of the landing of {datacenter} has to be on"
        return f"let it run: photon land {pipeline.typed} -d {datacenter}"
