"""Land the objects of one source: list them, write a file of each new one, say in the marker what waits."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import islice
from pathlib import Path

from photon.landing.marker import ASIDE, AtEnd, acknowledged_in
from photon.landing.objects.contents import ObjectBroken, write_lines
from photon.landing.objects.known import Known
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
from photon.process.faults import fault_point
from photon.storage.full_disks import is_without_room
from photon.storage.s3 import StoredObject
from photon.storage.store_errors import StoreUnavailable
from photon.storage.sync import UNFINISHED, make_folder, sync, write_synced
from photon.storage.tokens import new_id

MOST_AT_A_LOOK = 10_000  # objects that are remembered to be landed; the next look finds the others
MARKER_EVERY_US = 2 * MICROSECONDS
REFUSED_AGAIN_US = 600 * MICROSECONDS  # an object that may not be read, as one that is archived

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
        for left in self._aside.glob(f"*{UNFINISHED}"):  # nobody else writes here
            left.unlink()
        self._known = Known(self._aside)
        before = read_marker(folder)
        self._said = replace(
            before or ObjectsMarker(source.name, boot, clock.now_us(), new_id()),
            objects=source.name,
            boot=boot,
            at_end=before.at_end if before is not None and before.objects == source.name else None,
        )
        self._new_elapsed_us = clock.elapsed_us()  # when an object came last, for all that is known
        self._wall_ahead_us = clock.now_us() - clock.elapsed_us()
        self._marked_us = 0
        self._left: dict[str, StoredObject] = {}  # what the last look could not land
        self.refusal = ""  # why the last look could not list or read: waiting does not help

    def close(self) -> None:
        """Let go of the list."""
        self._known.close()

    @property
    def not_landed(self) -> list[str]:
        """Each object that is not landed, or went before it was, in a sentence."""
        return [one.sentence() for one in self._known.failed()]

    def look(self, is_stopped: Callable[[], bool]) -> bool:
        """List the source and land what is new, the oldest first; whether nothing is left.

        An error of the store, or a full disk, is told, and makes it False. ExtraMissing, other OSErrors.
        """
        as_of_us, as_of_elapsed_us = self._clock.now_us(), self._clock.elapsed_us()
        self.refusal = ""
        try:
            self._known.acknowledge(acknowledged_in(self._folder))
            listed = self._list()
            self._compare_missed(listed)
            if listed.count:
                self._new_elapsed_us = self._clock.elapsed_us()
                self._say(
                    look=new_id(), waiting=listed.count, waiting_bytes=listed.bytes
                )  # before any has a name
            self._left = {one.name: one for one in listed.new}
            for one in listed.new:
                if not is_stopped() and self._land(one):
                    del self._left[one.name]
            if self._left or listed.count > len(listed.new):
                replaced = "" if is_stopped() else next(iter(self._left), "")
                self._say(problem=f"{replaced} was replaced while it was read" if replaced else "")
                return False
            quiet_us = self._quiet_us(as_of_us, as_of_elapsed_us)
            self._say(waiting=0, waiting_bytes=0, at_end=AtEnd(as_of_us, as_of_elapsed_us, quiet_us))
            return True
        except (OSError, sqlite3.Error) as error:
            self._tell(error)
            return False

    def _tell(self, error: OSError | sqlite3.Error) -> None:
        """Take note of why nothing is landed now, or raise what nobody can wait for."""
        self._known.rollback()
        problem = str(error)
        if is_without_room(error, self._folder):
            problem = f"no room in {self._folder}: make room there"
        elif not isinstance(error, StoreUnavailable | PermissionError | FileNotFoundError):
            raise error
        elif not isinstance(error, StoreUnavailable):
            self.refusal = problem
        if problem != self._said.problem:
            log.warning("objects %s: %s; it is tried again", self._source.name, problem)
        with suppress(OSError, sqlite3.Error):
            self._say(problem=problem)

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
        found.new = nsmallest(MOST_AT_A_LOOK, self._new(found, now_us), key=by_age)
        if found.is_any:
            self._known.forget(now_us)
        self._known.commit()
        return found

    def _new(self, found: Listed, now_us: int) -> Iterator[StoredObject]:
        listing = self._source.listed()
        while some := list(islice(listing, LISTED_AT_ONCE)):
            found.is_any = True
            found.etags |= {one.name: one.etag for one in some if one.name in found.missed}
            new = self._known.new_among([digest_of(one.name, one.etag) for one in some], now_us)
            for one in some:
                if digest_of(one.name, one.etag) in new:
                    found.count += 1
                    found.bytes += one.size_bytes
                    yield one

    def _compare_missed(self, listed: Listed) -> None:
        """Note as lost what is not listed any more; a newer version stands for an older one (K11)."""
        if not listed.is_any:  # as of a disk that is not mounted
            return
        for one in self._known.failed():
            etag = listed.etags.get(one.name)
            if etag is None and not one.is_gone:
                self._fail(replace(one, reason=f"{one.reason}; it went before it was landed", is_gone=True))
            elif etag not in (None, one.etag):
                self._known.drop_failed([bytes.fromhex(one.id)])
        for name, left in self._left.items():
            if name not in listed.etags:
                self._fail(Failed(name, left.etag, GONE, self._clock.now_us(), is_gone=True))

    # -- one object

    def _land(self, one: StoredObject) -> bool:
        """Write the file of an object; False if it has another version by now."""
        name = file_name(one.name, one.etag, self._ending)
        path = self._folder / name
        now_us = self._clock.now_us()
        try:
            if not path.exists():  # else a process died before it noted that (K8)
                self._write(one, path)
        except OtherVersion:
            return False
        except ObjectGone:
            self._fail(Failed(one.name, one.etag, GONE, now_us, is_gone=True))
        except ObjectRefused as error:
            self._fail(
                Failed(one.name, one.etag, f"may not be read: {error}", now_us), now_us + REFUSED_AGAIN_US
            )
        except ObjectBroken as error:
            self._fail(Failed(one.name, one.etag, str(error), now_us))
        else:
            sync(path.parent)
            fault_point("land.after_name")
            self._known.land(digest_of(one.name, one.etag), one.size_bytes, now_us)
        left, bytes_ = self._said.waiting - 1, self._said.waiting_bytes - one.size_bytes
        self._said = replace(self._said, waiting=left, waiting_bytes=bytes_)
        if self._clock.elapsed_us() - self._marked_us >= MARKER_EVERY_US:
            self._say()
        return True

    def _write(self, one: StoredObject, path: Path) -> None:
        """Copy an object aside, and name the file of its lines once that is whole and on disk."""
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

    def _fail(self, failed: Failed, again_us: int | None = None) -> None:
        log.error("objects %s: %s", self._source.name, failed.sentence())
        self._known.fail(failed, 0 if failed.is_gone else again_us)  # one that comes back is landed

    # -- the marker

    def _say(self, **changed: object) -> None:
        """Note what is landed, then say it; both on disk."""
        self._known.commit()
        failed, (landed, bytes_) = self._known.failed(), self._known.total()
        self._said = replace(
            self._said,
            said_us=self._clock.now_us(),
            failed=tuple(failed[:MOST_NAMED]),
            failed_count=len(failed),
            landed=landed,
            landed_bytes=bytes_,
            **{"problem": "", **changed},  # type: ignore[arg-type]
        )
        put_marker(self._folder, self._said)
        self._marked_us = self._clock.elapsed_us()
