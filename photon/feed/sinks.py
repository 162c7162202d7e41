"""Which sink a target names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from photon.errors import WrongUsage
from photon.feed.cursor_file import CursorFile, locked
from photon.feed.folder import FedFolder
from photon.feed.sink import Fed, Sink
from photon.feed.stdout import StandardOutput
from photon.pipeline.location import Location, parse_s3_url

POSTGRES = ("postgresql://", "postgres://")


@contextmanager
def sink_of(
    target: str | None,
    fed: Fed,
    out: BinaryIO,
    *,
    cursor_file: Path | None = None,
    into: str | None = None,
    takes_changes: bool = False,
) -> Iterator[Sink]:
    """The sink that `--to`, `--into` and `--cursor` name, until the follower ends; without a target, `out`.

    WrongUsage, FollowedAlready.
    """
    is_postgres = target is not None and target.startswith(POSTGRES)
    if into is not None and not is_postgres:
        raise WrongUsage("--into names a table of PostgreSQL: expected --to postgresql://... beside it")
    if cursor_file is not None and target is not None:
        raise WrongUsage(f"--cursor is for standard output: {target} keeps its own cursor; leave it out")
    if target is None and cursor_file is None:
        yield StandardOutput(out, None, takes_changes)
    elif cursor_file is not None:
        with locked(cursor_file.with_name(f"{cursor_file.name}.lock")):
            cursor = CursorFile(cursor_file.parent, cursor_file.name, fed)
            yield StandardOutput(out, cursor, takes_changes)
    elif is_postgres:
        try:
            from photon.feed.postgres import PostgresTable
        except ImportError:
            raise WrongUsage("--to postgresql://: pip install 'photon-join[postgres]' first") from None
        assert target is not None
        with closing(PostgresTable(target, into, fed, takes_changes)) as table:
            yield table
    else:
        assert target is not None
        if fed.table != "joined":
            raise WrongUsage(f"--to {target}: a folder takes joined rows only; expected postgresql://...")
        with closing(FedFolder(_folder_of(target), fed)) as folder:
            yield folder


def _folder_of(target: str) -> Location:
    if "://" not in target:
        return Path(target).absolute()
    try:
        return parse_s3_url(target, None, None)
    except ValueError as error:
        raise WrongUsage(f"--to {target}: expected a folder, postgresql://... or {error}") from None
