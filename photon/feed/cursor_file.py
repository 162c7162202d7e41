"""A cursor in a file: beside standard output, and in a folder that is fed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.feed.sink import Fed, sink_errors
from photon.feed.step import FeedStopped
from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew, UserError
from photon.process.operating_system import HeldByAnother, held_alone
from photon.releases.release import Release, decode_release, encode_release
from photon.storage.store import content, store_of

FORMAT = 1


class FollowedAlready(UserError):
    """Another process follows into the same place."""


@dataclass(frozen=True)
class CursorFile:
    """The file `name` in a folder: what is fed, and the release that was delivered last."""

    folder: Location
    name: str
    fed: Fed

    def read(self) -> Release | None:
        """The cursor; None: nothing was delivered. FeedStopped if it is of something else, FormatTooNew."""
        document = self.document()
        return None if document is None else document["release"]

    def document(self) -> dict[str, Any] | None:
        """All that it says, its release decoded. FeedStopped, FormatTooNew, SinkUnavailable."""
        return self.versioned()[0]

    def versioned(self) -> tuple[dict[str, Any] | None, str]:
        """The same, and which version of the file says so. FeedStopped, FormatTooNew, SinkUnavailable."""
        path = self.folder / self.name
        with sink_errors(path):
            try:
                stored, version = store_of(self.folder).read_version(self.name)
            except FileNotFoundError:
                return None, ""
        document = decoded(stored, path, "name", "table")
        fed = document["name"], document["table"]
        if fed != (self.fed.name, self.fed.table):
            raise FeedStopped(
                f"{path}: expected a cursor of {self.fed}, this one is of {fed[1]} rows of {fed[0]}: "
                "name another file"
            )
        return document, version

    def put(self, cursor: Release, **facts: object) -> None:
        """Have it say this, on disk, or what it said before. SinkUnavailable."""
        with sink_errors(self.folder / self.name):
            store = store_of(self.folder)
            store.make()
            store.put(self.name, content(self._encoded(cursor, facts)))
            store.sync()

    def swap(self, cursor: Release, version: str, **facts: object) -> bool:
        """The same in the place of a version; False if another one is there. SinkUnavailable."""
        with sink_errors(self.folder / self.name):
            store = store_of(self.folder)
            store.make()
            try:
                store.swap(self.name, self._encoded(cursor, facts), version)
            except FileExistsError:
                return False
            store.sync()
        return True

    def _encoded(self, cursor: Release, facts: Mapping[str, object]) -> bytes:
        document = {
            "format": FORMAT,
            "pipeline": str(self.fed.pipeline.absolute()),
            "name": self.fed.name,
            "table": self.fed.table,
            "release": json.loads(encode_release(cursor)),
            **facts,
        }
        return json.dumps(document).encode()


def decoded(stored: bytes, path: Location, *names: str) -> dict[str, Any]:
    """All that a cursor at a path says, its release decoded; with these keys. FeedStopped, FormatTooNew."""
    try:
        document: dict[str, Any] = json.loads(stored)
        if document["format"] > FORMAT:
            raise FormatTooNew(path, document["format"], FORMAT)
        if missing := set(names) - document.keys():
            raise KeyError(*missing)
        stored_release = json.dumps(document["release"]).encode()
        document["release"] = decode_release(stored_release, f"the release in {path}")
    except (ValueError, KeyError, TypeError):
        raise FeedStopped(
            f"{path}: expected a cursor that `photon follow` wrote; put the file back, "
            "or remove it and what was delivered, and begin anew"
        ) from None
    return document


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Have this process alone follow into what the file stands for, until it ends. FollowedAlready."""
    try:
        with held_alone(path):
            yield
    except HeldByAnother as error:
        raise FollowedAlready(
            f"{path}: process {error.process or 'another'} follows into this already; "
            "end it, or name another place"
        ) from None
