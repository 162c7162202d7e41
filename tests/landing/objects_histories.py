"""Random histories of a lander of objects, the store, a join behind it, and its disk; what must hold in each.

`python -m tests.landing.objects_histories FROM TO` runs many seeds.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

from photon.dispatcher.completion import watermark_us
from photon.dispatcher.landed_logs import OBJECTS_BELIEVED_US, LandedLogs
from photon.landing.marker import ASIDE, MarkerDamaged, acknowledge, read_or_why
from photon.landing.objects import source as source_module
from photon.landing.objects.known import FILE, FORGOTTEN_AFTER_DAYS, KnownDamaged
from photon.landing.objects.lander import ObjectsLander
from photon.landing.objects.marker import MARKER, ObjectsMarker, read_marker
from photon.landing.objects.names import file_name
from photon.landing.objects.source import ObjectSource
from photon.logs.files import LogFile, TrackedFile
from photon.process.faults import OBJECTS_FAULT_POINTS, watched
from tests.landing.histories import History, main
from tests.landing.landing_world import BOOT, NAME, NOON_US
from tests.landing.simulated_objects import Listing, SimulatedObjects, Version
from tests.support.manual_clock import ManualClock

SOURCE, ENDING = "gs://bucket/**/*", "jsonl"
NAMES = [f"{folder}{name}" for folder in ("", "h=1/", "h=1/d=2/") for name in ("a", "b", "c")]
IDLE_US = 300_000_000
PIECE_BYTES = 64  # of an object that is read: most have several
DAY_SECONDS = 24 * 3_600
SAME_DAY_US = (FORGOTTEN_AFTER_DAYS * DAY_SECONDS - 2 * 3_600) * 1_000_000  # clocks are set by an hour


@dataclass
class Folder:
    """The landed folder, and its clock."""

    folder: Path
    clock: ManualClock


@dataclass
class Join:
    """A join that looks at the landed folder, a step at a time: the marker, the files, the marker again."""

    world: Folder
    versions: dict[str, Version]  # by file
    logs: LandedLogs = field(init=False)
    files: dict[str, TrackedFile] = field(default_factory=dict)  # by path below the landed folder
    steps: int = 0

    def __post_init__(self) -> None:
        sources = {NAME: SOURCE}
        logs, clock = self.world.folder.parent, self.world.clock
        self.logs = LandedLogs(logs, {NAME: "foreign"}, IDLE_US, clock, BOOT, sources)

    @property
    def has_read(self) -> set[Version]:
        """The versions whose rows it has."""
        return {self.versions[path] for path, one in self.files.items() if not one.unread_bytes}

    def step(self, paths: list[str], has_time: bool) -> bool:
        """Go on; whether the log is called read up to some time. `has_time`: it reads what it finds."""
        self.steps += 1
        if self.steps % 3 == 1:
            self.logs.read()
        elif self.steps % 3 == 2:
            gone = self.files.keys() - set(paths)
            self.files |= {path: replace(self.files[path], state="gone") for path in gone}
            for number, path in enumerate(paths):
                before = self.files.get(path)
                if before is None or before.state == "gone" or (has_time and before.unread_bytes):
                    self.files[path] = self._tracked(number, path, has_time)
        else:
            self.logs.read_again()
            now_us = self.world.clock.now_us()
            awaited = self.logs.awaited("foreign", list(self.files.values()), now_us)
            return watermark_us(awaited, now_us, IDLE_US, None) is not None
        return False

    def _tracked(self, number: int, path: str, is_read: bool) -> TrackedFile:
        file = LogFile(number, "foreign", f"{NAME}/{path}", number, False, b"", 0, 0, b"")
        now_us = self.world.clock.now_us()
        return TrackedFile(file, int(is_read), b"", False, 1, now_us, now_us if is_read else None)


class ObjectsHistory(History):
    """One seed."""

    points = (*OBJECTS_FAULT_POINTS, "disk.before_write", "disk.before_sync", "disk.after_sync")
    world: Folder

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.store = SimulatedObjects(self.world.clock, before_answer=self._meanwhile)
        self.store.listed, self.store.is_odd = self._listed, lambda: self.chance.random() < 0.2
        self.source = ObjectSource(SOURCE, self.store, "**/*", "")
        self.lander: ObjectsLander | None = None
        self.versions: dict[str, Version] = {}  # all that ever were, by file
        self.join = Join(self.world, self.versions)
        self.there: set[str] = set()  # files
        self.landed: dict[Version, tuple[int, int]] = {}  # by how many listings; when the last of them began
        self.shown: dict[Version, int] = {}  # when a whole listing showed it last
        self.latest: dict[
            str, tuple[int, Version]
        ] = {}  # by name, what the last whole listing that has it showed
        self.again: set[Version] = set()  # what may be landed once more
        self.removed: set[Version] = set()  # whose files a person has taken
        self.told: dict[str, Version] = {}  # failures that nobody has acknowledged
        self.accepted: set[str] = set()  # failures that somebody has acknowledged
        self.lost: set[Version] = set()  # gone while no lander ran: nobody knows (K11)
        self.is_known = self.is_first_listing = False
        self.was_put_back = False
        self.pace = self.chance.choice((0.04, 0.3))  # how often a join goes on while a lander does
        self.has_rivals = seed % 8 == 0  # who may call complete what another one's objects wait for (K2)

    def _world(self, disk: Path) -> Folder:
        return Folder(disk / NAME, ManualClock(NOON_US))

    def run(self) -> None:
        """See `History`."""
        with patch.object(source_module, "PIECE_BYTES", PIECE_BYTES), watched(self._passed):
            super().run()

    def _actions(self) -> dict[Callable[[], None], int]:
        return {
            self._change_some: 25,
            self._show_odd_listings: 4,
            self._show_all: 4,
            self._refuse_some: 4,
            self._answer_all: 6,
            self._go_away: 5,
            self._step: 30,
            self._crash: 8,
            self._stop: 2,
            self._cut_power: 3,
            self._rival: 2,
            self._join: 12,
            self._acknowledge: 4,
            self._remove_read: 4,
            self._empty_folder: 1,
            self._lose_list: 2,
            self._lose_marker: 1,
            self._copy: 3,
            self._put_back: 2,
            self._put_back_list: 1,
            self._put_back_marker: 2,
            self._fill_disk: 2,
            self._mend_disk: 6,
            self._pass_time: 8,
            self._set_clock: 1,
        }

    # -- the store

    def _change_some(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self._change()

    def _change(self) -> None:
        """Put an object, perhaps as it was before, or remove one."""
        name = self.chance.choice(NAMES)
        earlier = [one for one in self.versions.values() if one.name == name]
        turn = self.chance.random()
        if turn < 0.2:
            self.store.remove(name)
        elif turn < 0.3 and earlier:
            self.store.put(self.chance.choice(earlier))
        else:
            kind = self.chance.choice(("text", "gzip", "parquet", "parquet", "broken"))
            rows = tuple(f"{len(self.store.puts)}-{n}" for n in range(self.chance.randint(1, 9)))
            self.store.put(Version.of(name, kind, rows))
        for one in self.store.current.values():
            self.versions[file_name(one.name, one.etag, ENDING)] = one

    def _show_odd_listings(self) -> None:
        self.store.old = dict(self.store.current)
        self.store.hidden = {name for name in NAMES if self.chance.random() < 0.2}

    def _show_all(self) -> None:
        self.store.old, self.store.hidden = None, set()

    def _refuse_some(self) -> None:
        self.store.refused = set(self.chance.sample(NAMES, 2))
        self.store.silent = set(self.chance.sample(NAMES, 2))

    def _answer_all(self) -> None:
        self.store.refused, self.store.silent, self.store.answers = set(), set(), None

    def _go_away(self) -> None:
        self.store.answers = self.chance.randint(0, 12)

    def _meanwhile(self) -> None:
        """Something happens between two answers of the store."""
        self.world.clock.advance(self.chance.choice((0.01, 0.5)))
        if self.chance.random() < 0.1:
            self._change()

    def _listed(self, listing: Listing) -> None:
        """A whole listing has ended: what it stands for, and what nobody knows of any more."""
        now_us, names = self.world.clock.elapsed_us(), {one.name for one in listing.shown}
        for one in self.landed:
            if one not in listing.shown and now_us - self.shown.get(one, now_us) > SAME_DAY_US:
                self.again.add(one)
        if self.is_first_listing:
            self.lost |= {one for one in self.shown if one.name not in names and not self._has_file(one)}
        self.is_first_listing = False
        self.lost -= listing.shown
        self.shown |= dict.fromkeys(listing.shown, now_us)
        self.latest |= {one.name: (len(self.whole), one) for one in listing.shown}
        self.told = {id_: one for id_, one in self.told.items() if self._is_latest(one)}

    @property
    def whole(self) -> list[Listing]:
        """The listings that no error ended."""
        return [one for one in self.store.listings if one.is_whole]

    def _is_latest(self, one: Version) -> bool:
        return self.latest.get(one.name, (0, one))[1] == one

    # -- the lander

    def _step(self) -> None:
        self.is_known = False
        try:
            if self.lander is None:
                self.is_first_listing = True
                (self.world.folder / ASIDE).mkdir(exist_ok=True)  # as who takes the lock does
                self.lander = ObjectsLander(self.source, self.world.folder, ENDING, self.world.clock, BOOT)
            is_done = self.lander.look(lambda: False)
            self._expect_told(is_done)
        except KnownDamaged:
            self._remove_list()
        except MarkerDamaged:
            (self.world.folder / ASIDE / MARKER).unlink()
        except OSError:
            self._kill()  # the process ends
        self.world.clock.advance(self.chance.choice((0.1, 1.0, 10.0)))

    def _kill(self) -> None:
        if self.lander is not None:
            self.lander.close()
        self.lander = None

    def _stop(self) -> None:
        """End it in order in the middle of a look."""
        looks = iter([False] * self.chance.randint(0, 4))
        if self.lander is not None:
            self.lander.look(lambda: next(looks, True))
        self._kill()

    def _rival(self) -> None:
        """Let another lander look amid a look, as where somebody removed the lock; then end the first."""
        is_due = self.has_rivals and self.lander is not None

        def meanwhile() -> None:
            nonlocal is_due
            if is_due and self.store.listings[-1].is_whole:
                is_due = False
                rival = ObjectsLander(self.source, self.world.folder, ENDING, self.world.clock, BOOT)
                rival.look(lambda: False)
                rival.close()
            self._meanwhile()

        self.store.before_answer = meanwhile
        if self.lander is not None:
            self.lander.look(lambda: False)
        self.store.before_answer = self._meanwhile
        self._kill()

    # -- the disk, and persons

    def _cut_power(self) -> None:
        self._kill()
        self.disk.cut_power(chance=self.chance)
        self.disk.sync_all()
        self._have_landed_again()

    def _have_landed_again(self) -> None:
        """Files are gone that no person has taken: they are to come again."""
        self.there &= set(self._files())
        self.again |= {one for one in self.landed if not self._has_file(one)} - self.removed

    def _has_file(self, one: Version) -> bool:
        return file_name(one.name, one.etag, ENDING) in self.there

    def _acknowledge(self) -> None:
        marker, _ = read_or_why(read_marker, self.world.folder)
        if marker is not None and marker.failed:
            ids = [one.id for one in marker.failed]
            with suppress(OSError):  # the disk is full
                acknowledge(self.world.folder, ids)
                self.accepted |= set(ids)
                self.told = {id_: one for id_, one in self.told.items() if id_ not in self.accepted}

    def _remove_read(self) -> None:
        """Somebody removes files that are read, of objects that are known."""
        known = {one for number, one in self.latest.values() if number == len(self.whole)}
        for path in self._files() if self.lander is not None and self.is_known else ():
            if self.versions[path] in self.join.has_read & known and self.chance.random() < 0.5:
                (self.world.folder / path).unlink()
                self.removed.add(self.versions[path])

    def _empty_folder(self) -> None:
        self._kill()
        shutil.rmtree(self.world.folder)
        self.world.folder.mkdir()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.told, self.was_put_back = {}, True
        self._have_landed_again()
        self.again |= set(self.landed)

    def _lose_list(self) -> None:
        """The list of known objects is removed, or damaged: then the lander says to remove it."""
        self._kill()
        path = self.world.folder / ASIDE / FILE
        if self.chance.random() < 0.5 and path.exists():
            path.write_bytes(b"x" * path.stat().st_size)
        else:
            self._remove_list()

    def _remove_list(self) -> None:
        for path in (self.world.folder / ASIDE).glob(f"{FILE}*"):
            path.unlink()
        self.again |= set(self.landed)

    def _lose_marker(self) -> None:
        self._kill()
        path = self.world.folder / ASIDE / MARKER
        if path.exists():
            path.write_bytes(path.read_bytes()[: self.chance.choice((0, 40))])
            self.told, self.was_put_back = {}, True

    def _put_back(self) -> None:
        """Put back a copy that is older than a marker is believed."""
        if self._put_back_a_copy(self.world.clock.elapsed_us() - OBJECTS_BELIEVED_US):
            self._begin_anew()
            for _ in range(4):
                self._join()

    def _put_back_list(self) -> None:
        """Put back an older copy of the list of known objects alone."""
        if self._has_put_back(FILE, self.world.clock.elapsed_us()):
            self.again |= set(self.landed)
            self.removed |= {one for one in self.landed if not self._has_file(one)}  # an emptied folder's

    def _put_back_marker(self) -> None:
        """A lander dies, and somebody puts back an older marker."""
        self._crash()
        if self._has_put_back(MARKER, self.world.clock.elapsed_us() - OBJECTS_BELIEVED_US):
            self.told, self.was_put_back = {}, True
            for _ in range(4):
                self._join()

    def _has_put_back(self, name: str, made_before_us: int) -> bool:
        there = [copy / ASIDE / name for made_us, copy in self.copies if made_us <= made_before_us]
        there = [path for path in there if path.exists()]
        if there:
            self._kill()
            (self.world.folder / ASIDE).mkdir(exist_ok=True)
            for path in (self.world.folder / ASIDE).glob(f"{name}*"):
                path.unlink()
            shutil.copy(self.chance.choice(there), self.world.folder / ASIDE / name)
            self.disk.sync_all()
        return bool(there)

    def _pass_time(self) -> None:
        self.world.clock.advance(self.chance.choice((5, 30, 400, DAY_SECONDS)))

    def _set_clock(self) -> None:
        self.world.clock.set_back(self.chance.choice((-1_800, 1_800)))

    # -- what must hold

    def _files(self) -> list[str]:
        files = self.world.folder.glob("**/[!.]*.jsonl")
        return sorted(str(path.relative_to(self.world.folder)) for path in files)

    def _passed(self, point: str, _: object) -> None:
        """At a fault point of the lander: the join may go on."""
        if point in OBJECTS_FAULT_POINTS:
            self._look()
        if self.chance.random() < self.pace:
            self._join()

    def _look(self) -> None:
        """Each file is whole, as its version is, and none is landed twice."""
        now = set(self._files())
        for path in now:
            version, found = self.versions[path], (self.world.folder / path).read_bytes()
            if _ids(found) != version.rows:
                self._fail(f"{path} is not as its object is: {found[:60]!r}")
            if path not in self.there:
                if version in self.landed and version not in self.again:
                    self._fail(f"{path} is landed twice")
                self.again.discard(version)
                self.removed.discard(version)
                self.landed[version] = len(self.whole), self.whole[-1].began_us
        self.there = now

    def _expect_told(self, is_done: bool) -> None:
        """What a listing showed is in a file, or told until it is acknowledged or replaced."""
        self.is_known = is_done
        marker = read_marker(self.world.folder)
        said = set() if marker is None else {one.id for one in marker.failed}
        due = [one for number, one in self.latest.values() if is_done and number == len(self.whole)]
        for one in {*self.told.values(), *due} - self.landed.keys():
            if one.id not in said and self._is_owed(one):
                self._fail(f"{one.name} {one.etag} is in no file, and nobody tells it")
        told = [one for one in self.versions.values() if one.id in said and self._is_latest(one)]
        self.told |= {one.id: one for one in told}

    def _is_owed(self, one: Version) -> bool:
        return one.id not in self.accepted and one not in self.lost | self.removed

    def _join(self) -> None:
        self._look()
        if self.join.step(sorted(self.there), self.chance.random() < 0.8) and not self.has_rivals:
            marker = read_marker(self.world.folder)
            assert marker is not None, "without a marker nothing is read"
            self._expect_complete(marker)

    def _expect_complete(self, marker: ObjectsMarker) -> None:
        """Where the log is called read nothing that was there waits, and no object came in its silence."""
        assert marker.at_end is not None, "the log is called read"
        as_of_us, read = marker.at_end.as_of_elapsed_us, self.join.has_read
        last = max((self.landed[one][0] for one in read), default=0)
        due = {one for number, one in self.latest.values() if number <= last}
        listing = next(one for one in self.store.listings if one.began_us >= as_of_us)
        due |= {one for one in listing.there if one in listing.shown or not listing.is_whole}
        for one in due - read:
            if self._is_latest(one) and self._is_owed(one):
                self._fail(f"the log is called read while {one.name} {one.etag} waits")
        since_us = max((at for _, at in self.landed.values() if at <= as_of_us), default=0)
        if marker.at_end.quiet_us > as_of_us - since_us and not self.was_put_back:
            self._fail(f"a silence of {marker.at_end.quiet_us} us is told, {as_of_us - since_us} us were")

    def _end(self) -> None:
        """Let the store answer all, and somebody acknowledge what fails, until nothing changes."""
        self._show_all()
        self._answer_all()
        self.store.before_answer = lambda: None
        for _ in range(4):
            self._step()
            self._acknowledge()
            self.world.clock.advance(700)
        self._step()

    def _expect_all(self) -> None:
        for one in self.store.current.values():
            if not (
                self._has_file(one) or one in self.removed or (one.rows is None and one.id in self.accepted)
            ):
                self._fail(f"{one.name} {one.etag} is in no file")
        if not any([self.join.step(self._files(), has_time=True) for _ in range(6)]):
            self._fail("nothing waits, and the log is not called read")


def _ids(found: bytes) -> tuple[str, ...] | None:
    """The ids of whole lines; None: they are not whole."""
    try:
        return tuple(json.loads(line)["id"] for line in found.splitlines()) if found[-1:] == b"\n" else None
    except ValueError:
        return None


if __name__ == "__main__":
    main(ObjectsHistory)
