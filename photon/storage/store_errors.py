"""Errors of native libraries (delta-rs, obstore) in a line for people, without stack and secrets."""

from __future__ import annotations

import errno
import re

from photon.process.environment import FILES_REMEDY


class StoreUnavailable(OSError):
    """A store did not answer as it should: nobody knows what it has."""


def tells_of_damage(error: BaseException) -> bool:
    """Whether an object is gone or can't ever be read, as Arrow, Delta or a store says.

    A store that does not answer, or refuses, has damaged nothing. Errors of Arrow and Delta about bytes that
    were read have no number of the system's. A disk that can't read these bytes has lost them (EIO).
    """
    return not is_away(error) and _system_number(error) in (None, errno.ENOENT, errno.EIO)


def is_away(error: BaseException) -> bool:
    """Whether a store did not answer, or refused: then nothing is damaged."""
    return any(
        isinstance(each, StoreUnavailable | PermissionError) or NO_ANSWER in str(each)
        for each in (error, error.__cause__)
    )


NO_ANSWER = "Generic S3 error"  # delta-rs, of all errors but that an object is there already, or is missing
_S3_SAYS = re.compile(r"<Code>(?P<code>[^<]*)</Code>(?:\s*<Message>(?P<message>[^<]*)</Message>)?")
# obstore's first line does not tell a refused connection, a name that is unknown, or a timeout.
_SYSTEM_SAYS = re.compile(r'\b(?:message|error): "([^"]*)"|(?<=kind: )Timeout')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_REQUEST = re.compile(r"Error performing \w+ (?P<endpoint>https?://[^/\s]+)")
_CAUSE = "\u21b3"  # obstore's sign before a cause of the line above
# How Rust writes the operating system's answer; obstore has it in its last cause.
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
MOST_REASON_CHARACTERS = 1_000
TRIED_AGAIN = "it is tried again"  # ends a message: once the cause is mended, nothing else is to be done
# Remedies for a disk, by the operating system's answer.
DISK_REMEDIES = {
    errno.ENOSPC: "make room on its disk",
    errno.EFBIG: FILES_REMEDY,
    errno.EDQUOT: "make room within the quota",
    errno.EROFS: "mount it so that it can be written",
    errno.EACCES: "let this user read and write there",
    errno.EPERM: "let this user read and write there",
    errno.EIO: "look at its disk, and at what the system's log says of it",
}
# Remedies by the code of S3's answer.
REMEDIES = {
    "NoSuchBucket": "make the bucket, or name another one in the pipeline file",
    "AccessDenied": "grant these credentials the right to read, write and list there, or set others",
    "InvalidObjectState": "restore the object from its archive",
    "RequestTimeTooSkewed": "set the clock of this machine, which differs from the store's",
}
# S3's and MinIO's answers to keys that are wrong: no right is missing.
WRONG_KEYS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "InvalidTokenId",
    "TokenRefreshRequired",
}
REFUSALS = (REMEDIES.keys() | WRONG_KEYS) - {"NoSuchBucket"}
_FORBIDDEN = re.compile(r"\b40[13] (Forbidden|Unauthorized)\b")  # with a body that is not S3's, or none
# S3 answers HEAD by a status alone: 400 says that the keys have expired.
_WORDLESS = re.compile(r"Error performing HEAD .*\b40[013] ")


def code_of(error: BaseException) -> str | None:
    """The code of S3's answer, if the error has one."""
    said = _S3_SAYS.search(str(error))
    return said["code"] if said is not None else getattr(error, "code", None)


def is_refusal(error: BaseException) -> bool:
    """Whether a store refuses these credentials; then nobody knows what is there."""
    is_refused = code_of(error) in REFUSALS or _FORBIDDEN.search(str(error)) is not None
    return isinstance(error, PermissionError) or is_refused


def is_wordless(error: BaseException) -> bool:
    """Whether a store may have refused these credentials, and GET would tell it."""
    return code_of(error) is None and _WORDLESS.search(str(error)) is not None


def is_without_bucket(error: BaseException) -> bool:
    """Whether a store says that there is no such bucket."""
    return code_of(error) == "NoSuchBucket"


def reason_of(error: BaseException, remedy: str = "") -> str:
    """A native library's error in a line, without its stack. What to do follows, else `remedy`.

    Of S3's answer it has code and message only: of a wrong signature S3 tells what was signed, by which key.
    """
    said = _COLOURS.sub("", str(error))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = lines[0][:MOST_REASON_CHARACTERS] if lines else type(error).__name__
    request = _REQUEST.search(said)
    causes = [line.removeprefix(_CAUSE).strip() for line in lines if line.startswith(_CAUSE)]
    if request is None:
        # obstore's own first line is the same whatever happened to a local file.
        return ": ".join(causes)[:MOST_REASON_CHARACTERS] if causes else first
    if (answer := _S3_SAYS.search(said)) is not None:
        why = ": ".join(part.rstrip(".") for part in (answer["code"], answer["message"]) if part)
        remedy = REMEDIES.get(answer["code"], remedy)
    else:
        why = causes[-1] if causes else _system_says(said) or first.rpartition(" - ")[2].rstrip(": ")
    return f"{why}, at {request['endpoint']}" + (f"; {remedy}" if remedy else "")


def disk_remedy(error: BaseException) -> str:
    """Return the remedy for an error of a local disk; empty where it is not known."""
    number = _system_number(error)
    return DISK_REMEDIES.get(number, "") if number is not None else ""


def _system_number(error: BaseException) -> int | None:
    """The number of the operating system's answer; None: this is no such error."""
    said = _OS_ERROR.search(str(error))
    return int(said[1]) if said is not None else getattr(error, "errno", None)


def _system_says(said: str) -> str:
    match = _SYSTEM_SAYS.search(said)
    return "" if match is None else match[1] or "operation timed out"
