"""Releases of simulated tables: drivers make them and keep copies, and an observer knows the rules.

Counting a table is a stand-in. Numbers, cuts and ledgers are the product's own code (protocol R1, R2, R5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from photon.registry.entry import Epoch
from photon.registry.id_registry import IdRegistry
from photon.registry.view import View, unclosed_claimants
from photon.releases.making import Counted, ReleaseSight, closed_places, next_release
from photon.releases.numbering import lacked, last_release, offer, take_new_releases
from photon.releases.release import NOTHING, Part, Place, Release
from tests.registry.simulated_positions import Pause
from tests.registry.simulated_world import FENCED, RuleBroken, Table, World


def look_at_start(world: World, datacenter: str, registry: IdRegistry) -> None:
    """Begin with the last release. No ledger was put back, so to refuse the registry is wrong (R5)."""
    newest = [table.releases[max(table.releases)] for table in world.tables.values() if table.releases]
    if (release := lacked(registry, newest)) is not None:
        raise RuleBroken(f"release {release.number} is in a lake, and a start misses it in the registry")
    take_new_releases(registry.view)
    last = last_release(registry.view)
    _keep(world.tables[datacenter], [] if last is None else [last])


def copy_releases(world: World, datacenter: str, view: View) -> None:
    """Have a datacenter's lake keep what was read since the last call."""
    _keep(world.tables[datacenter], take_new_releases(view))


def _keep(table: Table, releases: Sequence[Release]) -> None:
    for release in releases:
        other = table.releases.setdefault(release.number, release)
        if other != release:
            raise RuleBroken(f"two releases have number {release.number}: {_told(other)}; {_told(release)}")


def make_release(world: World, registry: IdRegistry, epoch: Epoch, batch: int, pause: Pause) -> None:
    """Make the next release, if anything is new; others may make some between count and offer.

    `batch`: the last one of this epoch that the own table has on disk.
    """
    view, register = registry.view, registry.register
    unclosed = [one.batch - 1 for one in unclosed_claimants(view) if one.epoch == epoch]
    own = Place(epoch.number, min([batch, *unclosed]))
    closed = closed_places(view)
    closed[epoch.datacenter] = max(own, closed.get(epoch.datacenter, own))
    last, counted = last_release(view), dict[str, Counted]()
    for name in sorted(closed.keys() - {*register.lakes_gone}):
        before = last.parts[name].place if last is not None and name in last.parts else NOTHING
        counted[name] = counted_in(world.tables[name], closed[name], before)
        pause()
    sight = ReleaseSight(epoch.datacenter, last, counted, lakes_gone=frozenset(register.lakes_gone))
    made = offer(registry, lambda now: next_release(replace(sight, last=now), len(world.story)))
    if made is not None:
        world.tell(f"{epoch.datacenter} makes release {made.number}: {_told(made)}")


def counted_in(table: Table, closed: Place, before: Place) -> Counted:
    """A datacenter's part, as `LakeCounter` counts it."""
    place = max(place_in(table, closed), before)
    return Counted(Part(place, "table", rows_within(table, place), 0))


def place_in(table: Table, closed: Place) -> Place:
    """The last place that is closed and that the table has (R2)."""
    return min(closed, reached_in(table, closed.epoch))


def reached_in(table: Table, number: int) -> Place:
    """How far the table had come at the end of an epoch."""
    known = [one for one in table.versions if one.number <= number]
    if not known:
        return NOTHING
    last = max(known, key=lambda one: one.number)
    version = table.versions[last]
    return Place(last.number, version - FENCED if version >= FENCED else version)


def rows_within(table: Table, place: Place) -> int:
    """How many rows were committed up to a place; those that the table lost since count too."""
    claimants = (row.claimant for row in [*table.rows, *table.lost_rows])
    return sum(Place(one.epoch.number, one.batch) <= place for one in claimants)


class ReleasesInOrder:
    """Looks at each release that was decided, in the order in which all read them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.last: Release | None = None

    def look(self, view: View) -> None:
        """Numbers rise, cuts never go back (R1, R2), and tables have the rows that are counted."""
        for release in take_new_releases(view):
            if release != self.last:  # a generation begins with the last one again
                self._must_follow(release)
                self.last = release
        for name, part in self.last.parts.items() if self.last is not None else ():
            table = self._world.tables[name]
            rows = part.rows if table.is_lost else rows_within(table, part.place)
            if rows != part.rows:
                raise RuleBroken(f"{name} has {rows} rows up to {part.place}, and a release has {part.rows}")

    def _must_follow(self, release: Release) -> None:
        before = self.last
        if before is None:
            return
        if release.number <= before.number:
            raise RuleBroken(f"release {release.number} comes behind release {before.number}")
        for name, part in before.parts.items():
            goes_on = name in release.parts and release.parts[name].place >= part.place
            if not goes_on and name not in release.lakes_gone:
                raise RuleBroken(f"the cut of {name} goes back: {_told(before)}, then {_told(release)}")


def _told(release: Release) -> str:
    return ", ".join(f"{name} up to {part.place}" for name, part in release.parts.items())
