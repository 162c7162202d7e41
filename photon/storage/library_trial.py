"""Try whether the installed delta-rs keeps the rule that exactly-once rests on (protocol A3).

Others bring delta-rs into an environment, and a newer one may take two commits on one snapshot without an
error. So a start tries it on a table of its own, once for each version in each environment: the first time it
takes some milliseconds, later a look for a file.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import deltalake
import pyarrow as pa
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError

from photon.process.errors import UserError
from photon.storage.delta import commit_files, create_table, open_table
from photon.toolchain.fetched import share_dir

TESTED = "1.6.6"  # the version with which all tests pass: that of requirements.lock
_APP = "photon:trial"


class LibraryBreaksCommits(UserError):
    """The installed delta-rs would let two processes commit one batch."""


def refuse_broken_library() -> None:
    """LibraryBreaksCommits if the installed delta-rs does not keep A3. Tried once for each version."""
    version = str(deltalake.__version__)
    tried = share_dir() / f"deltalake-{version}.tried"
    if tried.exists():
        return
    with TemporaryDirectory(prefix="photon-trial-") as folder:
        why = why_broken(Path(folder) / "table")
    if why is not None:
        raise LibraryBreaksCommits(
            f"deltalake {version} would let an event be joined twice: {why}. Install the version that Photon "
            f"was tested with: pip install deltalake=={TESTED}"
        )
    with suppress(OSError):  # where nobody may write it, the next start tries again
        tried.parent.mkdir(parents=True, exist_ok=True)
        tried.touch()


def why_broken(folder: Path) -> str | None:
    """Try A3 on a new table in `folder`, and say what breaks it; None: nothing does."""
    create_table(folder, pa.schema([("id", pa.string())]), "a trial", {})
    first, second = open_table(folder), open_table(folder)
    commit = CommitProperties(app_transactions=[Transaction(_APP, 1)])
    commit_files(first, [], commit)
    with suppress(CommitFailedError):
        commit_files(second, [], commit)
        return "of two commits of one batch on one snapshot it took both"
    found = open_table(folder).transaction_version(_APP)
    return None if found == 1 else f"it tells batch {found} of a table at batch 1"
