"""Which sink a target names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from photon.feed.cursor_file import CursorFile, locked
from photon.feed.folder import FedFolder
from photon.feed.sink import Fed, Sink
from photon.feed.stdout import Form, StandardOutput
from photon.pipeline.location import Location, parse_s3_url
from photon.process.errors import WrongUsage
from photon.process.extras import need_extra
from photon.storage.store import store_of
from photon.storage.sync import UNFINISHED


@contextmanager
def sink_of(
    target: str | None,
    fed: Fed,
    out: BinaryIO,
    *,
    cursor_file: Path | None = None,
    into: str | None = None,
    takes_changes: bool = False,
    form: Form = "jsonl",
) -> Iterator[Sink]:
    """The sink that `--to`, `--into`, `--cursor` and `--format` name, until the follower ends.

    Without a target it is `out`. WrongUsage, ExtraMissing, FollowedAlready.
    """
    is_postgres = target is not None and target.startswith(("postgresql://", "postgres://"))
    if into is not None and not is_postgres:
        raise WrongUsage("--into names a table of PostgreSQL: expected --to postgresql://... beside it")
    if cursor_file is not None and target is not None:
        raise WrongUsage(f"--cursor is for standard output: {target} keeps its own cursor; leave it out")
    if form != "jsonl" and target is not None:
        raise WrongUsage(f"--format {form} is for standard output: leave it out for {target}")
    if target is None:
        with (
            _cursor_of(cursor_file, fed) as cursor,
            closing(StandardOutput(out, cursor, takes_changes, form)) as stdout,
        ):
            yield stdout
    elif is_postgres:
        need_extra("postgres")
        from photon.feed.postgres import PostgresTable

        with closing(PostgresTable(target, into, fed, takes_changes)) as table:
            yield table
    else:
        if fed.table != "joined":
            raise WrongUsage(f"--to {target}: a folder takes joined rows only; expected postgresql://...")
        with closing(FedFolder(_folder_of(target), fed)) as folder:
            yield folder


@contextmanager
def _cursor_of(file: Path | None, fed: Fed) -> Iterator[CursorFile | None]:
    if file is None:
        yield None
    else:
        with locked(file.with_name(f"{file.name}.lock")):
            store = store_of(file.parent)
            left = [name for name in store.names(f"{file.name}.") if name.endswith(UNFINISHED)]
            store.remove(*left)  # killed processes left them
            yield CursorFile(file.parent, file.name, fed)


def _folder_of(target: str) -> Location:
    if "://" not in target:
        return Path(target).absolute()
    try:
        return parse_s3_url(target, None, None)
    except ValueError as error:
        raise WrongUsage(f"--to {target}: expected a folder, postgresql://... or {error}") from None
