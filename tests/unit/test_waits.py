"""A wait: told once when it begins and once when it ends, with the last cause; tries come more rarely."""

from __future__ import annotations

import errno
import random

import pytest
from deltalake.exceptions import DeltaError

from photon.dispatcher.retrying import BackoffRetry, Callbacks
from photon.storage.delta import LakeDamaged, LakeUnavailable, lake_errors
from photon.storage.store_errors import StoreUnavailable
from tests.support.manual_clock import ManualClock


class Told:
    """Note the lines that callbacks were told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.callbacks = Callbacks(
            on_wait=lambda reason: self.lines.append(f"waits: {reason}"),
            on_cause=lambda reason: self.lines.append(f"cause: {reason}"),
            on_resume=lambda reason, seconds: self.lines.append(f"goes on after {seconds > 1}: {reason}"),
        )


def test_a_wait_is_told_once_and_so_is_each_other_cause_of_it() -> None:
    told, clock = Told(), ManualClock(0)
    retry = BackoffRetry(told.callbacks, clock, random.Random(1))
    for reason in ("a", "a", "a", "b", "b"):
        assert retry.wait(reason)
    assert retry.is_waiting
    retry.over()
    retry.over()
    assert told.lines == ["waits: a", "cause: b", "goes on after True: b"]
    assert not retry.is_waiting


def test_tries_come_more_rarely_while_what_failed_still_fails() -> None:
    clock = ManualClock(0)
    retry = BackoffRetry(Callbacks(), clock, random.Random(2))
    for _ in range(100):
        retry.wait("full")
    assert clock.now_us() > 100 * 7 * 10**6


SAYS = "Generic LocalFileSystem error\n   \x1b[31m↳\x1b[0m {}\n    \x1b[31m↳\x1b[0m {}\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(SAYS.format("Unable to copy data to file", "No space left on device (os error 28)")),
            "Unable to copy data to file: No space left on device (os error 28); make room on its disk",
        ),
        (
            OSError(SAYS.format("Unable to open file /l/1.json", "Read-only file system (os error 30)")),
            "Unable to open file /l/1.json: Read-only file system (os error 30); mount it so that it can be "
            "written",
        ),
        (
            OSError(SAYS.format("Unable to open file /l/1.json", "Permission denied (os error 13)")),
            "Permission denied (os error 13); let this user read and write there",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "/l/a"), "'/l/a'; make room on its disk"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/l/a"), "make room within the quota"),
        (
            OSError(SAYS.format("Unable to sync", "something new")),
            "Unable to sync: something new; do it",
        ),
        (StoreUnavailable("no answer"), "no answer; it is tried again"),
    ],
)
def test_an_error_of_a_lake_has_the_words_of_the_system_and_what_to_do(error: OSError, said: str) -> None:
    with pytest.raises(LakeUnavailable) as raised, lake_errors("write /l", "do it"):
        raise error
    assert str(raised.value).startswith("cannot write /l: ")
    assert str(raised.value).endswith(said)


@pytest.mark.parametrize(
    ("error", "is_damaged"),
    [
        (FileNotFoundError("s3://l/1.parquet: NoSuchKey"), True),
        (OSError(errno.EIO, "Input/output error", "/l/a"), True),
        (DeltaError("Invalid JSON in log file"), True),
        (DeltaError("Object at location l/1.json not found: 404 Not Found"), True),
        (OSError(errno.ENOTCONN, "Transport endpoint is not connected", "/l/a"), False),
        (OSError(SAYS.format("Unable to open file /l/1.json", "Permission denied (os error 13)")), False),
        (DeltaError("Kernel error: Generic S3 error: Error performing GET http://l in 1s"), False),
        (StoreUnavailable("no answer"), False),
    ],
)
def test_only_an_answer_shows_that_a_lake_is_gone_or_damaged(error: Exception, is_damaged: bool) -> None:
    with pytest.raises(LakeUnavailable) as raised, lake_errors("read /l"):
        raise error
    assert isinstance(raised.value, LakeDamaged) == is_damaged
