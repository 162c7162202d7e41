"""A world whose stores are copied, and put back: the state folders, the registry's endpoints, the lakes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from itertools import count
from pathlib import Path
from typing import Literal, get_args
from unittest import mock

from photon.registry.errors import RegistryMismatch
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import first_register
from photon.registry.register import Members
from photon.registry.view import View
from photon.registry.view_store import VIEW_FILE
from photon.upkeep.plans import carry_out
from photon.upkeep.refill import Refilled, plan_refill
from tests.simulation.rules import must
from tests.simulation.verifying import verify
from tests.simulation.world import World
from tests.support.crashes import at
from tests.support.memory_ledgers import Decided

Part = Literal["state", "registry", "lake"]
PARTS: tuple[Part, ...] = get_args(Part)


class Copied(World):
    """A world whose stores are copied, and put back."""

    _decided: Decided | None = None  # the copy of the registry

    def new_registry(self) -> None:
        """Lose the registry's data, and make an empty one."""
        self.ledgers.put_back(Decided(first_register(self.pipeline, Members(1, ("memory",)))))

    def lose_views(self) -> None:
        """Have every process forget what it has read of the registry."""
        for place in self.pipeline.datacenters.values():
            (place.state / VIEW_FILE).unlink()

    def lose_releases(self) -> None:
        """No lake has a copy of a release, as of before there were any."""
        for place in self.pipeline.datacenters.values():
            shutil.rmtree(Path(str(place.lake)) / "releases", ignore_errors=True)

    @property
    def has_copy(self) -> bool:
        """Say whether the registry was copied."""
        return self._decided is not None

    def copy(self, parts: Collection[Part] = PARTS) -> None:
        """Copy these stores of all datacenters."""
        for name, place in self.pipeline.datacenters.items():
            for part, folder in (("state", place.state), ("lake", place.lake)):
                if part in parts:
                    copy = self.folder / "copies" / part / name
                    shutil.rmtree(copy, ignore_errors=True)
                    shutil.copytree(str(folder), copy)
        if "registry" in parts:
            self._decided = self.ledgers.copy()

    def put_back(self, parts: Collection[Part], datacenters: Collection[str] = ()) -> None:
        """Put the copies back, of these datacenters or of all."""
        for name in datacenters or self.pipeline.datacenters:
            place = self.pipeline.datacenters[name]
            for part, folder in (("state", place.state), ("lake", place.lake)):
                if part in parts:
                    shutil.rmtree(str(folder))
                    shutil.copytree(self.folder / "copies" / part / name, str(folder))
        if "registry" in parts:
            assert self._decided is not None, "the registry was copied"
            self.ledgers.put_back(self._decided)

    def refill(self, dry_run: bool = False) -> Refilled:
        """Refill the registry, as `photon registry refill` does."""
        return carry_out(lambda: plan_refill(self.pipeline, self.unread(), page_rows=3), dry_run)

    def unread(self) -> IdRegistry:
        """Open the registry with a view that has read nothing."""
        return IdRegistry(self.ledgers, View(self.ledgers.register, f"refill {next(self._numbers)}"))

    def join_all(self) -> bool:
        """Join every datacenter, and refill the registry if a join says so; return whether one did."""
        was_refused = False
        for _ in range(2):  # the second time closes what the first one held
            for name in self.pipeline.datacenters:
                self.clock.sleep(2)
                if (said := self.refused(name)) is not None:
                    must(f"photon registry refill {self.pipeline.file}" in said, said)
                    must(not was_refused, "refilled once, it is refused no more")
                    was_refused = True
                    must(not self.refill().doubles, "no event has two rows")
                    self.join(name)
        return was_refused

    def refused(self, datacenter: str = "east") -> str | None:
        """Join, and return why the join refused the registry, if it did."""
        try:
            self.join(datacenter)
        except RegistryMismatch as error:
            return str(error)
        return None

    def must_be_sound(self, ids: Collection[str]) -> None:
        """Check that each of these events has one row, and that verification finds nothing."""
        must(self.joined_ids() == sorted(ids), f"{self.joined_ids()} are joined")
        for report in verify(self).values():
            must(not report.findings, f"verification finds {report.findings}")


def with_copies_of_one_click(folder: Path) -> Copied:
    """A datacenter with c1 joined, of whose stores there are copies; then d1 and d2 joined too."""
    world = Copied(folder)
    world.events("c1")
    world.join()
    world.copy()
    world.clicks(("d1", "q1"), ("d2", "q1"))
    world.join()
    return world


def a_process_works_while_the_registry_is_filled(folder: Path) -> None:
    """A process runs where nobody sees its lock, and stands still between its check and its commit."""
    world, refilled = Copied(folder, ("east", "west")), list[Refilled]()
    world.copy(["registry"])
    for click in ("c1", "d1"):
        world.everywhere(click)
        if click == "c1":
            world.join_all()

    def refill() -> None:
        world.put_back(["registry"])
        with mock.patch("photon.upkeep.refill._refuse_beside_joins"):
            refilled.append(world.refill())
        world.join("west")

    with at("commit.before_main", refill):
        world.refused("east")
    must(refilled, "the registry was filled while a process worked")
    world.join("east")
    must(world.joined_ids() == ["c1", "d1"], f"an event has two rows: {world.joined_ids()}")


def gives_up() -> Callable[[], bool]:
    """Fails the test if a process asks again and again whether to stop."""
    rounds = count(1)

    def should_stop() -> bool:
        if next(rounds) > 400:
            must(False, "it goes on for ever")
        return False

    return should_stop
