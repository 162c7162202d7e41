"""Histories of a registry over real servers: client processes, while servers are killed and stalled."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.store_servers import StoreServer, registry_pipeline
from photon.clock import SystemClock
from photon.ledger.opening import find_registry, init_registry, open_registry
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.layout import datacenter_of
from photon.registry.interface import Claim, IdRegistry
from tests.contract.registry_client import Order, settings_for
from tests.simulation.history import Operation
from tests.simulation.recording import Recorder, read_recordings

DATACENTERS = ("east", "west")
POLL_SECONDS = 0.02
FAULT_PAUSE_SECONDS = (0.5, 3.0)
FAULT_SECONDS = (0.1, 2.5)
CLIENT_KILL_CHANCE = 0.15  # at each fault
SECOND_SERVER_CHANCE = 0.15  # at each fault: for a moment there is no majority
FINAL_BATCH = 500
_LAST = "last"  # the datacenter of those calls


class ClientFailed(Exception):
    """A client process ended with an error; the message has the end of its output."""


@dataclass(frozen=True, slots=True)
class History:
    """What all clients were told, and what was done to servers and clients."""

    operations: list[Operation]
    server_kills: int
    server_stalls: int
    client_kills: int

    @property
    def at_rest(self) -> list[Operation]:
        """The calls after all others, about every id, with all servers up."""
        return [o for o in self.operations if datacenter_of(o.token) == _LAST]


def make_history(
    servers: Sequence[StoreServer],
    folder: Path,
    seed: int,
    operations: int,
    clients: int = 4,
    prepare: str = "",
) -> History:
    """Have so many clients do so many operations together while servers fall, then ask about every id.

    `prepare`: see `Order`. All servers run afterwards.
    """
    kind = servers[0].kind
    pipeline = registry_pipeline("histories", [server.url for server in servers], settings_for(kind))
    init_registry(pipeline, SystemClock())
    folder.mkdir(parents=True, exist_ok=True)
    orders = [
        Order(
            pipeline=pipeline.name,
            kind=kind,
            urls=tuple(server.url for server in servers),
            recording=str(folder / f"client-{number}-1"),
            datacenter=DATACENTERS[number % len(DATACENTERS)],
            seed=seed * 1_000 + number,
            clients=clients,
            operations=-(-operations // clients),
            prepare=prepare,
        )
        for number in range(clients)
    ]
    crew = _Crew(orders, folder)
    weather = _Weather(servers, random.Random(seed), crew.kill_one)
    try:
        while crew.is_at_work():
            weather.pass_on()
            time.sleep(POLL_SECONDS)
    finally:
        weather.clear_up()
        crew.stop()
    if not prepare:  # at rest every id is asked for, here, by the registry as it is
        _ask_for_all(open_registry(find_registry(pipeline)), folder)
    recorded = read_recordings(sorted(folder.glob("client-*")))
    return History(recorded, weather.kills, weather.stalls, crew.kills)


def _ask_for_all(registry: IdRegistry, folder: Path) -> None:
    ids = sorted({operation.id for operation in read_recordings(sorted(folder.glob("client-*")))})
    with Recorder(folder / "client-last") as recorder:
        for start in range(0, len(ids), FINAL_BATCH):
            token = f"{_LAST}:{start}:1#none:1:0"
            claims = [Claim(EventKey(event_id), token) for event_id in ids[start : start + FINAL_BATCH]]
            recorder.commit(registry, claims)
            recorder.lookup(registry, claims)


class _Crew:
    """The client processes. One that is killed is followed by another that takes up its work."""

    def __init__(self, orders: Sequence[Order], folder: Path) -> None:
        self._folder = folder
        self._at_work = {number: (order, self._start(order)) for number, order in enumerate(orders)}
        self.kills = 0

    def _start(self, order: Order) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.contract.registry_client", order.as_text()]
        Path(order.recording).touch()  # it may be killed before it records anything
        with (self._folder / "output").open("ab") as output:
            path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
            environment = {**os.environ, "PYTHONPATH": path}
            return subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    def is_at_work(self) -> bool:
        """Whether there is one that has not ended. ClientFailed if one ended with an error."""
        for number, (_, process) in list(self._at_work.items()):
            if process.poll() is not None:
                if process.returncode != 0:
                    output = (self._folder / "output").read_text()[-2_000:]
                    raise ClientFailed(f"client {number} ended with {process.returncode}: {output}")
                del self._at_work[number]
        return bool(self._at_work)

    def kill_one(self, chance: random.Random) -> None:
        """Kill one while it works, and start its successor."""
        number = chance.choice(sorted(self._at_work)) if self._at_work else None
        if number is None:
            return
        order, process = self._at_work[number]
        process.kill()
        process.wait()
        self.kills += 1
        done = len(read_recordings([Path(order.recording)]))
        stem, _, generation = order.recording.rpartition("-")
        successor = replace(
            order,
            recording=f"{stem}-{int(generation) + 1}",
            seed=order.seed + 100,
            first=order.first + done,
        )
        self._at_work[number] = (successor, self._start(successor))

    def stop(self) -> None:
        """Leave none behind."""
        for _, process in self._at_work.values():
            process.kill()
            process.wait()


class _Weather:
    """Servers that are killed or stalled for a while, by chance."""

    def __init__(
        self,
        servers: Sequence[StoreServer],
        chance: random.Random,
        kill_a_client: Callable[[random.Random], None],
    ) -> None:
        self._servers = servers
        self._chance = chance
        self._kill_a_client = kill_a_client
        self._next_fault = time.monotonic() + chance.uniform(*FAULT_PAUSE_SECONDS)
        self._mends: dict[StoreServer, tuple[float, Callable[[], None]]] = {}
        self.kills = 0
        self.stalls = 0

    def pass_on(self) -> None:
        """Do what is due now."""
        now = time.monotonic()
        for server, (due, mend) in list(self._mends.items()):
            if now >= due:
                del self._mends[server]
                mend()
        if now < self._next_fault:
            return
        self._next_fault = now + self._chance.uniform(*FAULT_PAUSE_SECONDS)
        if not self._mends or self._chance.random() < SECOND_SERVER_CHANCE:
            self._strike(now)
        if self._chance.random() < CLIENT_KILL_CHANCE:
            self._kill_a_client(self._chance)

    def _strike(self, now: float) -> None:
        server = self._chance.choice([s for s in self._servers if s not in self._mends])
        due = now + self._chance.uniform(*FAULT_SECONDS)
        if self._chance.random() < 0.5:
            server.kill()
            self.kills += 1
            self._mends[server] = (due, server.start)
        else:
            server.stall()
            self.stalls += 1
            self._mends[server] = (due, server.resume)

    def clear_up(self) -> None:
        """Have all servers answer."""
        for _, mend in self._mends.values():
            mend()
        self._mends.clear()
