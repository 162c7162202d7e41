"""Check what must hold of releases, at each that is decided or copied, and at rest (protocol R)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from photon.pipeline.file import Pipeline
from photon.registry.id_registry import IdRegistry
from photon.releases import copies
from photon.releases.datasets import datasets_of
from photon.releases.finding import ReleaseUnreadable
from photon.releases.numbering import take_new_releases
from photon.releases.reading import OpenRelease, open_release
from photon.releases.release import Place, Release
from tests.simulation.rules import must

if TYPE_CHECKING:
    from tests.simulation.whole.invariants import Lake, Row


class ReleaseRules:
    """All that must hold of the releases of one site. `lakes`: the joined rows of each datacenter."""

    def __init__(self, pipeline: Pipeline, lakes: Mapping[str, Lake]) -> None:
        self._pipeline, self._lakes = pipeline, lakes
        self._last: Release | None = None
        self._last_of: IdRegistry | None = None  # the view that has read it
        # The last release before each lake was put back, until a release names the lake.
        self._put_back: dict[str, Release | None] = {}

    def lake_is_put_back(self, datacenter: str) -> None:
        """A copy of a lake has replaced it: the next release says so."""
        self._put_back.setdefault(datacenter, self._last)

    def look_at_decided(self, registry: IdRegistry) -> None:
        """R1 and R2: numbers rise, cuts never go back, and lakes have the rows that are counted."""
        if registry is not self._last_of:  # a copy of it was put back, or it was refilled
            self._last_of, self._last = registry, None
        for release in take_new_releases(registry.view):
            if release == self._last:  # a genesis has the last one again
                continue
            self._must_follow(release, self._last)
            self._last = release
        for name, part in self._last.parts.items() if self._last is not None else ():
            if name not in self._put_back:
                rows = len(self._rows_within(name, part.place))
                must(rows == part.rows, f"R2: {name} has {rows} rows up to {part.place}, not {part.rows}")

    def _must_follow(self, release: Release, before: Release | None) -> None:
        named = {note.datacenter for note in release.notes if note.change == "lake put back"}
        for name, part in before.parts.items() if before is not None else ():
            is_kept = name in release.parts and release.parts[name].place >= part.place
            is_told = name in named or name in release.lakes_gone
            must(is_kept or is_told, f"R2: release {release.number} takes rows of {name} back")
        must(before is None or release.number > before.number, f"R1: {release.number} comes twice")
        for name in named:
            self._put_back.pop(name, None)

    def look_at_copies(self) -> None:
        """R1: all lakes that have a copy of a release have the same one."""
        found: dict[int, Release] = {}
        for name, place in self._pipeline.datacenters.items():
            for release in copies.kept(place.lake):
                other = found.setdefault(release.number, release)
                must(release == other, f"R1: {name} has another release {release.number} than another lake")

    def look_at_rest(self, pipeline: Pipeline) -> None:
        """R9: what any lake calls its newest release can be read, and the latest one has all rows.

        `pipeline`: without lakes that are gone, as people have it by then.
        """
        self.look_at_copies()
        newest = [copies.latest(place.lake) for place in pipeline.datacenters.values()]
        try:
            latest = open_release(pipeline)
            for each in (OpenRelease(pipeline, release) for release in newest if release is not None):
                self._must_have_its_rows(each)
        except ReleaseUnreadable as unreadable:
            must(False, f"R9: {unreadable}")
        for name in sorted(self._put_back.keys() & latest.release.parts.keys()):
            self._must_be_named(name)
        rows = sum(len(self._lakes[name].rows) for name in latest.release.parts)
        must(latest.release.rows == rows, f"R2: the last release has {latest.release.rows} of {rows} rows")

    def _must_be_named(self, datacenter: str) -> None:
        """R4, if that took rows of the last release before, and any lake has a copy of it still."""
        before = self._put_back[datacenter]
        if before is None or datacenter not in before.parts:
            return
        lakes = [place.lake for place in self._pipeline.datacenters.values()]
        if before in [copies.release(lake, before.number) for lake in lakes]:
            part = before.parts[datacenter]
            has_all = len(self._rows_within(datacenter, part.place)) >= part.rows
            must(has_all, f"R4: {datacenter} lacks rows of release {before.number}, and no later one says so")

    def _must_have_its_rows(self, release: OpenRelease) -> None:
        for files in release.tables("joined_events"):
            datasets, _ = datasets_of([files], files.schema)
            columns = [each.to_table(["_event_id"])["_event_id"] for each in datasets]
            shown = [event for column in columns for event in column.to_pylist()]
            rows = self._rows_within(files.datacenter, files.place)
            is_shown = sorted(shown) == sorted(row["_event_id"] for row in rows)
            must(is_shown, f"R9: release {release.release.number} shows other rows of {files.datacenter}")

    def _rows_within(self, datacenter: str, place: Place) -> list[Row]:
        rows = self._lakes[datacenter].rows
        return [row for row in rows if Place(int(row["_epoch"]), row["_batch"]) <= place]
