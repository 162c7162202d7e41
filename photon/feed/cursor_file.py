"""A cursor in a file: beside standard output, and in a folder that is fed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.errors import FormatTooNew, UserError
from photon.feed.sink import Fed, SinkUnavailable
from photon.feed.step import FeedStopped
from photon.pipeline.location import Location
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
        return None if document is None else decode_release(json.dumps(document["release"]).encode())

    def document(self) -> dict[str, Any] | None:
        """All that it says. FeedStopped, FormatTooNew."""
        path = self.folder / self.name
        with self._errors():
            try:
                stored = store_of(self.folder).read(self.name)
            except FileNotFoundError:
                return None
        try:
            document: dict[str, Any] = json.loads(stored)
            if document["format"] > FORMAT:
                raise FormatTooNew(path, document["format"], FORMAT)
            fed = document["name"], document["table"]
            decode_release(json.dumps(document["release"]).encode(), f"the release in {path}")
        except (ValueError, KeyError, TypeError):
            raise FeedStopped(
                f"{path}: expected a cursor that `photon follow` wrote; put the file back, "
                "or remove it and what was delivered, and begin anew"
            ) from None
        if fed != (self.fed.name, self.fed.table):
            raise FeedStopped(
                f"{path}: expected a cursor of {self.fed}, this one is of {fed[1]} rows of {fed[0]}: "
                "name another file"
            )
        return document

    def put(self, cursor: Release, **facts: object) -> None:
        """Have it say this, on disk, or what it said before. SinkUnavailable."""
        document = {
            "format": FORMAT,
            "pipeline": str(self.fed.pipeline.absolute()),
            "name": self.fed.name,
            "table": self.fed.table,
            "release": json.loads(encode_release(cursor)),
            **facts,
        }
        with self._errors():
            store = store_of(self.folder)
            store.make()
            store.put(self.name, content(json.dumps(document).encode()))
            store.sync()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkUnavailable(f"{self.folder / self.name} can't be used: {error}") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Have this process alone follow into what the file stands for, until it ends. FollowedAlready."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FollowedAlready(
                f"{path}: process {file.read() or 'another'} follows into this already; "
                "end it, or name another place"
            ) from None
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield
