"""What all processes of a simulation share: folders of a pipeline, stores of its registry, virtual time."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.sections import Registry
from photon.pipeline.values import Format
from photon.registry.address import RegistryAddress
from photon.registry.consensus.layout import SHARD_HASH, ItemKey, item_key
from photon.registry.consensus.register import Members, Register, ShardConfig
from tests.simulation.log_lines import FORMATS
from tests.simulation.network import REQUEST_TIMEOUT_SECONDS, Weather
from tests.simulation.observer import Observer
from tests.simulation.simulated_stores import Stores
from tests.simulation.whole.judging import Judge
from tests.simulation.whole.network import StoppedByRules
from tests.simulation.world import NOON_US, PIPELINE, World

FIRST_HORIZON_US = NOON_US + 30_000_000  # while events come still
NAMES = ("east", "west", "north")
SETTINGS = Registry(
    total_timeout=timedelta(seconds=6),
    request_timeout=timedelta(seconds=REQUEST_TIMEOUT_SECONDS),
    horizon_step=timedelta(seconds=60),
    shards=3,
)
TIME_IN_ID = 0.4  # of the seeds
MORE = """
home: {{takeover_delay: 1s, quiet_after: 20s}}
recovery: {{silent_after: 10s}}
tailing: {{poll_interval: 500ms}}
retry: {{max_delay: 20s}}
{limits}
"""
SMALL_BATCHES = "limits: {batch_primary: 512B, batch_foreign: 256B}"  # 7 queries, 5 clicks
WEATHERS = (
    Weather(),
    Weather(lost=0.02, late=0.02, repeated=0.05, in_part=0.03, throttled=0.02, unreadable=0.01),
    Weather(lost=0.08, late=0.05, repeated=0.1, in_part=0.1, throttled=0.05, unreadable=0.03),
)


@dataclass
class Site:
    """One seed's folders, stores and time."""

    folder: Path
    seed: int
    chance: random.Random = field(init=False)
    # Ids that the product calls random. Of their own: a variant that asks for one more differs in no more.
    ids: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.ids = random.Random(f"{self.seed}, ids")
        self.names = NAMES[: self.chance.choice((2, 2, 3))]
        self.format: Format = self.chance.choice(FORMATS)
        self.time_in_id = self.chance.random() < TIME_IN_ID
        self.times_us: dict[str, int] = {}  # of events
        limits = SMALL_BATCHES if self.chance.random() < 0.5 else ""
        self.world = World.__new__(World)
        self.world.folder = self.folder
        self.pipeline = self.world.pipeline = self._make(MORE.format(limits=limits))
        self.n = self.chance.choice((1, 3, 3, 5))
        self.network = StoppedByRules(self.chance, self.chance.choice(WEATHERS))
        self.event_us: dict[str, int] = defaultdict(lambda: NOON_US)
        self.observer = Observer(self.n, lambda: self.network.now_seconds, self.event_us)
        members = Members(1, tuple(f"slot-{slot}-0" for slot in range(self.n)))
        register = Register(self.pipeline.name, "simulated", SHARD_HASH, members, ())
        if self.time_in_id:
            register = replace(register, configs=(ShardConfig(SETTINGS.shards),), horizon_us=FIRST_HORIZON_US)
        self.stores = Stores(self.network, self.observer, register)
        self.offsets: dict[tuple[Path, str | None, int], int] = {}  # seen, by state, epoch and file
        self.judge = Judge(self.network, self.observer, self.stores)

    def _make(self, more: str) -> Pipeline:
        lines = "\n".join(f"  {name}: {{logs: logs/{name}}}" for name in self.names)
        path = self.folder / "pipeline.yaml"
        text = PIPELINE.format(datacenters=lines, more=more, format=self.format)
        of_clicks = "key: query, time: at, "
        path.write_text(text.replace(of_clicks, of_clicks + f"time_in_id: {str(self.time_in_id).lower()}, "))
        for name in self.names:
            for kind in ("queries", "clicks"):
                (self.folder / "logs" / name / kind).mkdir(parents=True)
        return load_pipeline(path)

    def out_of_sight(self, datacenter: str) -> Path:
        """The folder to which logs of a datacenter are moved, where nobody looks for them."""
        return self.folder / "away" / datacenter

    def key(self, event_id: str) -> EventKey:
        """What identifies an event."""
        return EventKey(event_id, self.times_us[event_id] if self.time_in_id else None)

    def item(self, event_id: str) -> ItemKey:
        """Where the registry has it."""
        return item_key(self.key(event_id), self.observer.register.configs)

    @property
    def address(self) -> RegistryAddress:
        """Where the registry is now."""
        return RegistryAddress(self.pipeline.name, (), self.stores.members, SETTINGS)

    @property
    def now_us(self) -> int:
        """Virtual time of day."""
        return NOON_US + round(self.network.now_seconds * 1_000_000)
