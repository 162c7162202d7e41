"""Land the objects of one source: list them, write a file of each new one, say in the marker what waits."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import islice
from pathlib import Path

from photon.landing.marker import ACKNOWLEDGED, ASIDE, AtEnd, acknowledged_in
from photon.landing.objects.contents import ObjectBroken, write_lines
from photon.landing.objects.known import Known, is_passing
from photon.landing.objects.marker import MOST_NAMED, Failed, ObjectsMarker, put_marker, read_marker
from photon.landing.objects.names import digest_of, file_name, partition_values
from photon.landing.objects.source import (
    LISTED_AT_ONCE,
    ObjectGone,
    ObjectRefused,
    ObjectSource,
    OtherVersion,
)
from photon.process.clock import MICROSECONDS, Clock
from photon.process.extras import ExtraMissing
from photon.process.faults import fault_point
from photon.storage.full_disks import is_without_room
from photon.storage.s3 import StoredObject
from photon.storage.store_errors import StoreUnavailable
from photon.storage.sync import UNFINISHED, make_folder, sync, write_synced
from photon.storage.tokens import new_id

MOST_AT_A_LOOK = 10_000  # objects that are remembered to be landed; the next look finds the others
MARKER_EVERY_US = 2 * MICROSECONDS
LIFE_EVERY_US = 10 * MICROSECONDS  # a long listing renews the marker so often: else it seems dead
PAUSE_OF_LISTING = 9  # so many times the time of a listing: they take a tenth of the time at most
RIGHTS_EVERY_US = 10 * MICROSECONDS  # thousands of objects may be archived, and each question is a listing
REFUSED_AGAIN_US = 600 * MICROSECONDS  # an object that may not be read, as one that is archived
UNANSWERED_US = 60 * MICROSECONDS  # so long one object is asked for while the store answers others

GONE = "went before it was landed"

log = logging.getLogger(__name__)


@dataclass
class Listed:
    """The new objects of one listing."""

    new: list[StoredObject] = field(default_factory=list)  # the oldest, at most MOST_AT_A_LOOK
    count: int = 0  # of all that are new
    bytes: int = 0
    is_any: bool = False
    missed: set[str] = field(default_factory=set)  # names of those that earlier looks did not land
    etags: dict[str, str] = field(default_factory=dict)  # of these, as they are now


class ObjectsLander:
    """Lands one source into one folder, which this process has locked (protocol K2, K8 to K11)."""

    def __init__(self, source: ObjectSource, folder: Path, ending: str, clock: Clock, boot: str) -> None:
        """`ending`: of the files, which says their format. KnownDamaged, MarkerDamaged, OSError."""
        self._source, self._folder, self._ending = source, folder, ending
        self._clock, self._boot = clock, boot
        self._aside = folder / ASIDE
        for left in self._aside.glob(f"*{UNFINISHED}"):
            if not left.name.startswith(ACKNOWLEDGED):  # which a person may be writing
                left.unlink(missing_ok=True)
        self._known = Known(self._aside)
        sync(folder)  # the name of the list's folder
        before = read_marker(folder) or ObjectsMarker(source.name, boot, clock.now_us(), new_id())
        if before.objects == source.name:
            self._known.keep(before.failed)
        is_its_own = (before.objects, before.boot) == (source.name, boot)
        end = before.at_end if is_its_own else None
        self._said = replace(before, objects=source.name, boot=boot, at_end=end)
        # When an object was landed last, for all that is known: a silence goes on over a start.
        quiet = end if end is not None and end.quiet_us and not before.waiting else None
        self._new_elapsed_us = quiet.as_of_elapsed_us - quiet.quiet_us if quiet else clock.elapsed_us()
        at = (clock.now_us(), clock.elapsed_us()) if end is None else (end.as_of_us, end.as_of_elapsed_us)
        self._wall_ahead_us = at[0] - at[1]
        self._marked_us = self._began_us = 0
        self._checked_us = -RIGHTS_EVERY_US
        self._left: dict[str, StoredObject] = {}  # what the last look could not land
        self._named: set[Path] = set()  # folders whose names are on disk
        self._unanswered: dict[bytes, int] = {}  # since when the store does not answer on an object
        self.listing_us = 0  # the time of the last look's listing
        self.refusal = ""  # why the last look could not list, read or write: somebody has to do something

    def close(self) -> None:
        """Let go of the list."""
        self._known.close()

    @property
    def not_landed(self) -> list[str]:
        """Each object that is not landed, or went before it was, in a sentence."""
        return [one.sentence() for one in self._known.failed()]

    @property
    def landed(self) -> int:
        """How many objects are landed since the folder was begun."""
        return self._known.total()[0]

    @property
    def rest_us(self) -> int:
        """How long nobody lists after a look: each listing costs money."""
        took_us = self._clock.elapsed_us() - self._began_us
        return max(0, (PAUSE_OF_LISTING + 1) * self.listing_us - took_us)

    def look(self, is_stopped: Callable[[], bool]) -> bool:
        """List the source and land what is new, the oldest first; whether nothing is left.

        An error of the store, or a full disk, is told, and makes it False. Other OSErrors.
        """
        as_of_us, as_of_elapsed_us = self._clock.now_us(), self._clock.elapsed_us()
        self._began_us, self.refusal = as_of_elapsed_us, ""
        try:
            self._known.acknowledge(acknowledged_in(self._folder))
            listed = self._list()
            self._compare_missed(listed)
            self._left = {one.name: one for one in listed.new}
            if listed.count:  # said before any has a name
                end = self._said.at_end and replace(self._said.at_end, quiet_us=0)
                waiting = {"waiting": listed.count, "waiting_bytes": listed.bytes}
                self._say(look=new_id(), at_end=end, **waiting)
            why_left = self._land_all(listed.new, is_stopped)
            if self._left or listed.count > len(listed.new):
                self._say(problem=why_left, rest_us=self.rest_us)
                return False
            end = AtEnd(as_of_us, as_of_elapsed_us, self._quiet_us(as_of_us, as_of_elapsed_us))
            self._say(waiting=0, waiting_bytes=0, at_end=end, rest_us=self.rest_us)
            return True
        except (OSError, sqlite3.Error) as error:
            self._tell(error)
            return False

    def _tell(self, error: OSError | sqlite3.Error) -> None:
        """Take note of why nothing is landed now, or raise what nobody can wait for."""
        if isinstance(error, sqlite3.Error):  # else each note is true
            self._known.rollback()
        problem = str(error)
        if is_without_room(error, self._folder):
            self.refusal = problem = f"no room in {self._folder}: make room there"
        elif isinstance(error, PermissionError | FileNotFoundError):
            self.refusal = problem
        elif not (isinstance(error, StoreUnavailable) or is_passing(error)):
            raise error
        if problem != self._said.problem:
            log.warning("objects %s: %s; it is tried again", self._source.name, problem)
        with suppress(OSError, sqlite3.Error):
            self._say(problem=problem, rest_us=self.rest_us)

    def _quiet_us(self, as_of_us: int, as_of_elapsed_us: int) -> int:
        """How long no object came; a wall clock that was set begins it anew."""
        ahead_us = as_of_us - as_of_elapsed_us
        if abs(ahead_us - self._wall_ahead_us) > MICROSECONDS:
            self._new_elapsed_us = as_of_elapsed_us
        self._wall_ahead_us = ahead_us
        return max(0, as_of_elapsed_us - self._new_elapsed_us)

    # -- what is there

    def _list(self) -> Listed:
        """List what is new. Nothing is concluded from a listing that ends with an error (K9)."""
        found = Listed(missed={one.name for one in self._known.failed()} | self._left.keys())
        now_us = self._clock.now_us()
        by_age = lambda one: (one.modified_us, one.name)  # noqa: E731
        began_us = self._clock.elapsed_us()
        try:
            found.new = nsmallest(MOST_AT_A_LOOK, self._new(found, now_us), key=by_age)
        finally:
            self.listing_us = self._clock.elapsed_us() - began_us
        if found.is_any:
            self._known.forget(now_us)
        elif self._known.total()[0]:
            self._source.refuse_empty()
        self._known.commit()
        return found

    def _new(self, found: Listed, now_us: int) -> Iterator[StoredObject]:
        listing = self._source.listed()
        while some := list(islice(listing, LISTED_AT_ONCE)):
            found.is_any = True
            if self._clock.elapsed_us() - self._marked_us >= LIFE_EVERY_US:
                with suppress(OSError, sqlite3.Error):  # on a full disk too the listing goes on
                    self._say(problem=self._said.problem)
            found.etags |= {one.name: one.etag for one in some if one.name in found.missed}
            new = self._known.new_among([digest_of(one.name, one.etag) for one in some], now_us)
            for one in some:
                if digest_of(one.name, one.etag) in new:
                    found.count += 1
                    found.bytes += one.size_bytes
                    yield one

    def _compare_missed(self, listed: Listed) -> None:
        """Note as lost what is not listed any more; a newer version stands for an older one (K11)."""
        # An empty listing may be one of a disk that is not mounted.
        for one in self._known.failed() if listed.is_any else ():
            etag = listed.etags.get(one.name)
            if etag is None and not one.is_gone:
                self._note(replace(one, reason=f"{one.reason}; it {GONE}", is_gone=True))
            elif etag not in (None, one.etag):
                self._known.drop_failed([bytes.fromhex(one.id)])
        for left in self._left.values():
            if left.name not in listed.etags:
                self._fail(left, GONE, is_gone=True)

    # -- objects

    def _land_all(self, new: Sequence[StoredObject], is_stopped: Callable[[], bool]) -> str:
        """Land objects, and take those from `_left` that are landed or failed; why one of them is left.

        StoreUnavailable where the store does not answer on two in a row.
        """
        why, is_answered = "", True
        for one in new:
            if is_stopped():
                break
            try:
                is_done = self._land(one)
                is_answered = True
                why = why if is_done else f"{one.name} was replaced while it was read"
            except StoreUnavailable as error:
                if not is_answered:
                    raise
                is_answered, why = False, str(error)
                is_done = self._is_given_up(one, why)
            if is_done:
                self._left.pop(one.name, None)  # a listing may have shown it twice
        return why

    def _is_given_up(self, one: StoredObject, why: str) -> bool:
        """Note an object as failed on which the store has not answered for long, though it lists objects."""
        id_ = digest_of(one.name, one.etag)
        since_us = self._unanswered.setdefault(id_, self._clock.elapsed_us())
        if self._clock.elapsed_us() - since_us < UNANSWERED_US:
            return False
        del self._unanswered[id_]
        self._fail(one, f"is not given: {why}", REFUSED_AGAIN_US)
        return True

    def _land(self, one: StoredObject) -> bool:
        """Write the file of an object; False if it has another version by now."""
        name = file_name(one.name, one.etag, self._ending)
        path = self._folder / name
        try:
            if not path.exists():  # else a process died before it noted that (K8)
                self._write(one, path)
        except OtherVersion:
            return False
        except ObjectGone:
            self._fail(one, GONE, is_gone=True)
        except ObjectRefused as error:
            self._check_rights()
            self._fail(one, f"may not be read: {error}", REFUSED_AGAIN_US)
        except ExtraMissing as error:
            self._fail(one, f"can't be read: {error}", REFUSED_AGAIN_US)
        except ObjectBroken as error:
            self._fail(one, str(error))
        else:
            self._sync_name(path)
            fault_point("land.after_name")
            self._known.land(digest_of(one.name, one.etag), one.size_bytes, self._clock.now_us())
            self._new_elapsed_us = self._clock.elapsed_us()
        self._unanswered.pop(digest_of(one.name, one.etag), None)
        left, bytes_ = self._said.waiting - 1, self._said.waiting_bytes - one.size_bytes
        self._said = replace(self._said, waiting=left, waiting_bytes=bytes_)
        if self._clock.elapsed_us() - self._marked_us >= MARKER_EVERY_US:
            self._say()
        return True

    def _check_rights(self) -> None:
        """Ask now and then, while objects are refused, whether all would be. PermissionError."""
        if self._clock.elapsed_us() >= self._checked_us + RIGHTS_EVERY_US:
            self._source.check_rights()
            self._checked_us = self._clock.elapsed_us()

    def _write(self, one: StoredObject, path: Path) -> None:
        """Copy an object, write its lines aside, and give that file its name once it is whole and on disk."""
        if not one.size_bytes:
            raise ObjectBroken("is empty: expected Parquet or Avro, as its name says")
        copy, unfinished = (self._aside / f"{new_id()}{UNFINISHED}" for _ in range(2))
        try:
            with copy.open("xb") as sink:
                self._source.copy(one, sink)
            constant = partition_values(self._source.folder + one.name)
            write_synced(unfinished, lambda sink: write_lines(copy, self._ending, constant, sink))
            fault_point("land.before_name")
            make_folder(path.parent)
            unfinished.replace(path)
        finally:
            copy.unlink(missing_ok=True)
            unfinished.unlink(missing_ok=True)

    def _sync_name(self, path: Path) -> None:
        """Put a file's name on disk, and its folders': a process may have died where it made one."""
        sync(path.parent)
        for folder in path.relative_to(self._folder).parents[:-1]:
            if folder not in self._named:
                sync(self._folder / folder.parent)
                self._named.add(folder)

    def _fail(
        self, one: StoredObject, reason: str, again_after_us: int | None = None, is_gone: bool = False
    ) -> None:
        """Note that an object is not landed, and perhaps when it is tried again with the same ETag."""
        now_us = self._clock.now_us()
        again_us = None if again_after_us is None else now_us + again_after_us
        self._note(Failed(one.name, one.etag, reason, now_us, is_gone), again_us)

    def _note(self, failed: Failed, again_us: int | None = None) -> None:
        log.error("objects %s: %s", self._source.name, failed.sentence())
        self._known.fail(failed, 0 if failed.is_gone else again_us)  # one that comes back is landed
        self._known.commit()  # nobody lists a lost one again

    # -- the marker

    def _say(self, rest_us: int = 0, **changed: object) -> None:
        """Note what is landed, then say it; both on disk. `rest_us`: so long nothing more is said."""
        self._known.commit()
        landed, bytes_ = self._known.total()
        now_us = self._clock.now_us()
        self._said = replace(
            self._said,
            said_us=now_us,
            due_us=now_us + rest_us,
            failed=tuple(self._known.failed(MOST_NAMED)),
            failed_count=self._known.count_failed(),
            landed=landed,
            landed_bytes=bytes_,
            **{"problem": "", **changed},  # type: ignore[arg-type]
        )
        put_marker(self._folder, self._said)
        self._marked_us = self._clock.elapsed_us()
