"""All processes of a simulation share a site: a pipeline's folders, its registry's ledgers, virtual time."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.values import Format
from photon.registry.opening import first_register
from photon.registry.register import Members
from tests.simulation.log_lines import FORMATS
from tests.simulation.whole.network import StoppedByRules, Weather
from tests.simulation.world import NOON_US, PIPELINE
from tests.support.memory_ledgers import MemoryLedgers

NAMES = ("east", "west", "north")
MORE = """
home: {{takeover_delay: 1s}}
recovery: {{silent_after: 10s}}
tailing: {{poll_interval: 500ms}}
{limits}
"""
SMALL_BATCHES = "limits: {batch_foreign: 256B}"  # 7 queries, 5 clicks
WEATHERS = (Weather(), Weather(lost=0.01, unheard=0.02), Weather(lost=0.05, unheard=0.1))


@dataclass
class Site:
    """One seed's folders, ledgers and time."""

    folder: Path
    seed: int
    chance: random.Random = field(init=False)
    # Draws the product's random ids by itself: a variant that asks for one more changes nothing else.
    ids: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.ids = random.Random(f"{self.seed}, ids")
        self.names = NAMES[: self.chance.choice((2, 2, 3))]
        self.format: Format = self.chance.choice(FORMATS)
        self.times_us: dict[str, int] = {}  # when each event happened
        limits = SMALL_BATCHES if self.chance.random() < 0.5 else ""
        self.pipeline = self._make(MORE.format(limits=limits))
        self.network = StoppedByRules(self.chance, self.chance.choice(WEATHERS))
        self.ledgers = MemoryLedgers()
        self.ledgers.decided.register = first_register(self.pipeline, Members(1, ("memory",)))
        self.offsets: dict[tuple[Path, str | None, int], int] = {}  # seen, by state, epoch and file
        self.put_back_seconds = -1.0  # when a copy of the registry was put back
        self.lakes_put_back: Counter[Path] = Counter()  # how often each lake was replaced by its copy

    def _make(self, more: str) -> Pipeline:
        lines = "\n".join(f"  {name}: {{logs: logs/{name}}}" for name in self.names)
        path = self.folder / "pipeline.yaml"
        path.write_text(PIPELINE.format(datacenters=lines, more=more, format=self.format))
        for name in self.names:
            for kind in ("queries", "clicks"):
                (self.folder / "logs" / name / kind).mkdir(parents=True)
        return load_pipeline(path)

    def out_of_sight(self, datacenter: str) -> Path:
        """The folder to which logs of a datacenter are moved, where nobody looks for them."""
        return self.folder / "away" / datacenter

    @property
    def now_us(self) -> int:
        """Virtual time of day."""
        return NOON_US + round(self.network.now_seconds * 1_000_000)

    def stamp(self, log: Path) -> None:
        """Say that a log was written to now, in virtual time: new files are numbered by their age."""
        now_ns = self.now_us * 1_000
        os.utime(log, ns=(now_ns, now_ns))
