"""Read what an endpoint's answers say of each item: done, there already, refused, or no reply. Pure.

Error codes are those of AWS, DynamoDB Local 2.6.1 and dynoxide 1.2.1 and 3.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from photon.registry.consensus.acceptor import (
    ABSENT,
    FAST_BALLOT,
    Done,
    NoReply,
    Page,
    Promised,
    ReadReply,
    Same,
    Scanned,
    Stored,
    StoreSize,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.columns import ItemColumn
from photon.registry.consensus.layout import ItemKey

# The answer to one statement; NoReply where the request as a whole got none.
Answer = Mapping[str, Any] | NoReply

_UNPROCESSED = NoReply("the endpoint left the key unprocessed", "throttled")
# Raised by reading an answer that breaks the API, such as a proxy's page or half an answer.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
CANCELLED = "TransactionCanceledException"
_CONDITION_FAILED = "ConditionalCheckFailed"
_DUPLICATE = "DuplicateItem"  # so a statement says it; a put says that its condition failed
# In a transaction DynamoDB Local 2.6.1 says so by a ValidationError; only its message tells it from others.
_DUPLICATE_MESSAGE = "Duplicate primary key exists in table"
_THROTTLED = (
    # Of a statement, or of a part of a transaction.
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    # Of a whole request.
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
)
_DENIED = (
    # Of a statement.
    "AccessDenied",
    # Of a whole request.
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "RequestExpired",
    "UnrecognizedClientException",
)
# In a batch of statements DynamoDB Local says it without `Exception`.
_TABLE_MISSING = ("ResourceNotFoundException", "ResourceNotFound")

_MEND_RIGHTS = (
    "mend this endpoint's credentials or rights (docs/operations.md: an endpoint that does not let Photon in)"
)


def error_code(answer: Answer) -> str | None:
    """The error of an answer, if it is one."""
    error = None if isinstance(answer, NoReply) else answer.get("Error")
    return None if error is None else str(error.get("Code"))


def is_done(answer: Answer) -> TypeGuard[Mapping[str, Any]]:
    """A write took effect if, and only if, its answer has no error (protocol B1)."""
    return not isinstance(answer, NoReply) and error_code(answer) is None


def write_reply(answer: Answer) -> WriteReply:
    """What the answer to one write says; Unchanged: its condition failed, or the item is there already."""
    if is_done(answer):
        return Done()
    return Unchanged() if error_code(answer) in (_DUPLICATE, _CONDITION_FAILED) else no_reply(answer)


def write_replies(answers: Sequence[Answer]) -> Sequence[WriteReply]:
    """What the answers to writes say, one by one."""
    if isinstance(answers, Same):
        return Same(write_reply(answers.reply), len(answers))
    return [write_reply(answer) for answer in answers]


def no_reply(answer: Answer) -> NoReply:
    """Map any other error to NoReply."""
    if isinstance(answer, NoReply):
        return answer
    error = answer.get("Error", {})
    code = str(error.get("Code", "unnamed error"))
    if code in _TABLE_MISSING:  # only init and repair make tables (protocol B9)
        return NoReply("its table is gone: if its data is lost, repair it", "unreachable")
    reason = f"{code}: {error.get('Message', '')}"
    if code in _DENIED:
        return denied(reason)
    return NoReply(reason, "throttled" if code in _THROTTLED else "unclear")


def denied(reason: str) -> NoReply:
    """No reply for want of credentials or rights, with what to do."""
    return NoReply(f"{reason}; {_MEND_RIGHTS}", "denied")


def promised_before(answer: Mapping[str, Any], key: ItemKey) -> Promised | NoReply:
    """What was there before a promise. An update meets only items that are there, so the answer has one.

    Without this check an endpoint that leaves it out would pass off a held id as free.
    """
    try:
        item = answer["Item"]
        if key_of(item) == key:
            return Promised(stored_in(item))
    except UNREADABLE:
        pass
    return NoReply("a promise without the item that was there before it")


def answer_when_cancelled(reason: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The answer to one statement of a cancelled transaction; None: send it again.

    Send again what was not the cause, met another transaction, or has a reason that we can't read. In the end
    it goes in a batch and gets an answer of its own.
    """
    code, message = str(reason.get("Code")), str(reason.get("Message", ""))
    if code == "ValidationError" and message == _DUPLICATE_MESSAGE:
        code = _DUPLICATE
    clear = code in (_DUPLICATE, _CONDITION_FAILED, *_THROTTLED)  # what is throttled waits for a pause
    return {"Error": {"Code": code, "Message": message}} if clear else None


def transaction_answers(response: Mapping[str, Any], count: int) -> Sequence[Mapping[str, Any] | None]:
    """The answers to a transaction of `count` writes; None for those to send again.

    An answer says that it was done only if it says what it consumed: a proxy or a half-broken server does
    not. If we took that for done, two could hold an id.
    """
    if is_done(response):
        if not any(isinstance(response.get(part), list) for part in ("ConsumedCapacity", "Responses")):
            raise ValueError("it does not say that a transaction was done")
        return Same({}, count)
    reasons = response.get("CancellationReasons", [])
    if len(reasons) != count:
        return [response] * count
    return [answer_when_cancelled(reason) for reason in reasons]


def batch_answers(response: Mapping[str, Any], count: int) -> Sequence[Mapping[str, Any]]:
    """The answers to a batch of `count` statements."""
    answers: list[Mapping[str, Any]] = response["Responses"]
    if len(answers) != count:
        raise ValueError(f"{len(answers)} answers to {count} statements")
    for answer in answers:
        answer.get("Error", answer).get("Code")  # raises where the answer can't be read
    return answers


def items_of(response: Mapping[str, Any], table: str, wanted: ItemColumn) -> Sequence[ReadReply]:
    """What a read found for each key: absent only if the key was processed (protocol B8)."""
    # Plain tuples: they equal keys, and an `ItemKey` takes four times as long to make.
    found = {_place_of(item): stored_in(item) for item in response["Responses"].get(table, [])}
    left = response.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
    if not found and not left:
        return Same(ABSENT, len(wanted))
    unprocessed = {_place_of(key) for key in left}
    keys = zip(wanted.shards.to_pylist(), wanted.range_keys.to_pylist(), strict=True)
    return [_UNPROCESSED if key in unprocessed else found.get(key, ABSENT) for key in keys]


def page_of(response: Mapping[str, Any]) -> Page:
    """A page of a scan or a query."""
    last = response.get("LastEvaluatedKey")
    items = (
        Scanned(key_of(item), item.get("e", {"S": ""})["S"], stored_in(item)) for item in response["Items"]
    )
    return Page(tuple(items), None if last is None else key_of(last))


def size_of(response: Mapping[str, Any]) -> StoreSize:
    """How much a table has, from its description. Items without a byte: the endpoint does not count bytes."""
    table = response["Table"]
    items, size_bytes = int(table["ItemCount"]), int(table["TableSizeBytes"])
    return StoreSize(items, size_bytes if size_bytes or not items else None)


def key_of(item: Mapping[str, Any]) -> ItemKey:
    """Where an item lies."""
    return ItemKey(*_place_of(item))


def _place_of(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["p"]["S"], item["s"]["S"]


def stored_in(item: Mapping[str, Any]) -> Stored:
    """What an item says: without `t` there is no value, whatever else is there (protocol B8)."""

    value, accepted, promised = item.get("t"), item.get("a"), item.get("b")
    return Stored(
        None if value is None else str(value["S"]),
        FAST_BALLOT if accepted is None else str(accepted["S"]),
        FAST_BALLOT if promised is None else str(promised["S"]),
    )


# -- sizes, by DynamoDB's own rule: names and values of an item's attributes in UTF-8


def item_bytes(item: Scanned) -> int:
    """The size of a stored item: its key, and what is stored beside it."""
    return len("p") + _bytes(item.key.p) + len("s") + _bytes(item.key.s) + bytes_beside_key(item)


def bytes_beside_key(item: Scanned) -> int:
    """The size of an item without its key: value, ballots, and the stored time (`e`, even if it is empty)."""
    stored = item.stored
    attributes = [("e", item.time)]
    if stored.value is not None:
        attributes.append(("t", stored.value))
    attributes += [(name, text) for name, text in (("a", stored.accepted), ("b", stored.promised)) if text]
    return sum(len(name) + _bytes(text) for name, text in attributes)


def _bytes(text: str) -> int:
    return len(text.encode())
