"""Tell from a column's name whether it is an id, and whose, or a time. Pure decisions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

IdName = Literal["own", "other", "shared"]
NUMBERED = "column_"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ID_WORDS = {
    "id", "ids", "uid", "uuid", "guid", "ulid", "key", "ref", "identifier", "number", "num", "no", "nr",
}  # fmt: skip
_BARE = {
    "id",
    "uuid",
    "guid",
    "ulid",
    "identifier",
    "number",
    "no",
    "nr",
}  # names that any log gives to its own records
_RECORD_WORDS = {"event", "record", "row", "log", "message", "msg", "entry"}
# Who or what takes part in many events. In a sample its ids may all differ by chance.
_SHARED_WORDS = {
    "session", "user", "visitor", "customer", "account", "client", "device", "tenant", "trace", "cookie",
    "host", "server", "ip", "correlation", "parent", "group", "thread", "process", "browser", "member",
    "phone", "mobile", "mail", "email", "card", "version", "sequence", "line", "port", "page", "position",
}  # fmt: skip
_SHARED_NAMES = {"pid", "tid", "sid", "gid", "ppid", "vid"}
# A hash of a content is the same for two events with that content.
_CONTENT_WORDS = {"hash", "sha", "md", "digest", "fingerprint", "fp", "etag", "checksum", "crc", "signature"}
_TIME_WORDS = {"time", "ts", "date", "at", "timestamp", "datetime", "when", "clock", "epoch"}
_TIMES_AT_ENDS = re.compile(r"(time|date|timestamp|_ts|_at)$|^(time|date|ts_)", re.IGNORECASE)
_OTHERS_TIMES = re.compile(
    r"arriv|ingest|receiv|updat|process|written|load|logged|stored|insert", re.IGNORECASE
)
_CONCATENATED = re.compile(r"(.{3,})(uuid|guid|id)")


def numbered(count: int) -> tuple[str, ...]:
    """Names for the columns of files that name none."""
    return tuple(f"{NUMBERED}{number}" for number in range(1, count + 1))


@lru_cache(4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in small letters: `request.userId` has request, user and id."""
    return tuple(word.lower() for word in _WORD.findall(name))


def log_words(place: str) -> frozenset[str]:
    """List the names for one record of a log, by the word of its folder or file: clicks, click."""
    words = words_of(place)
    if not words:
        return frozenset()
    last = words[-1]
    one = last[:-3] + "y" if last.endswith("ies") else last.removesuffix("s")
    return frozenset({last, one, last.removesuffix("es")})


def id_name(name: str, log: frozenset[str]) -> IdName | None:
    """Whether a column of a log is called like an id: of its own records, of something shared, of others."""
    words = words_of(name)
    if not words:
        return None
    if len(words) == 1 and (split := _CONCATENATED.fullmatch(words[0])) and split[1] in _known(log):
        words = (split[1], split[2])
    *before, last = words
    if last in _SHARED_NAMES or _CONTENT_WORDS & set(words):
        return "shared"
    if last not in _ID_WORDS:
        short = len(words) == 1 and len(last) == 3 and last.endswith("id")  # such as cid of clicks
        if short:
            return "own" if any(word.startswith(last[0]) for word in log) else "other"
        return None
    if not before:
        return "own" if last in _BARE else "other"
    if before[-1] in log | _RECORD_WORDS:
        return "own"
    return "shared" if _SHARED_WORDS & set(before) else "other"


def is_word_of_log(name: str, log: frozenset[str]) -> bool:
    """Whether a column is called like one record of its log, as `click` of clicks."""
    return len(words := words_of(name)) == 1 and words[0] in log


def _known(log: frozenset[str]) -> set[str]:
    return {*log, *_RECORD_WORDS, *_SHARED_WORDS, "request", "transaction", "order", "query", "click"}


def is_time_name(name: str) -> bool:
    """Whether a column is called like a time."""
    words = words_of(name)
    return bool(words) and (words[-1] in _TIME_WORDS or _TIMES_AT_ENDS.search(name) is not None)


def is_time_of_event(name: str) -> bool:
    """Whether a column is called like the one time that each event has."""
    words = words_of(name)
    return is_time_name(name) and (len(words) == 1 or "event" in words)


def is_time_of_others(name: str) -> bool:
    """Whether a column is called like the time at which somebody got, or changed, the record."""
    return _OTHERS_TIMES.search(name) is not None


def alikeness(foreign: str, primary: str, primary_log: frozenset[str]) -> float:
    """How well a foreign column's name fits a primary id's, from 0 to 1."""
    if foreign.startswith(NUMBERED) or primary.startswith(NUMBERED):
        return 0.0  # nobody gave these names
    theirs, ours = words_of(foreign), words_of(primary)
    is_bare = len(ours) == 1 and ours[0] in _BARE
    if theirs == ours or foreign == primary:
        return 0.3 if is_bare else 1.0  # each log may call its own id so
    if is_bare and _names_a_record_of(theirs, ours[0], primary_log):
        return 1.0
    if not (theirs and ours):
        return 0.0
    if theirs[-len(ours) :] == ours or ours[-len(theirs) :] == theirs or theirs == ours[:-1]:
        return 0.5
    return 0.2 if theirs[-1] in _ID_WORDS else 0.0


def _names_a_record_of(theirs: tuple[str, ...], bare: str, log: frozenset[str]) -> bool:
    """Whether a name is `query_id`, `queryId`, `queryid` or `query`, for the id of the log of queries."""
    return any(theirs in ((word, bare), (word + bare,), (word,)) for word in log)
