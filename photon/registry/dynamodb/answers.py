"""What the answers of an endpoint say: of each item done, there already, refused, or nothing (no reply).

Pure. Error codes are those of AWS, DynamoDB Local 2.6.1 and dynoxide 3.2.0. Requests belong in
`photon.registry.dynamodb.requests`, what follows from replies in `photon.registry.consensus.decisions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from photon.registry.consensus.acceptor import (
    ABSENT,
    FAST_BALLOT,
    Done,
    NoReply,
    NoReplyKind,
    Page,
    Promised,
    ReadReply,
    Scanned,
    Stored,
    StoreSize,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.layout import ItemKey

# Where a whole request got no answer, that of each statement has a kind of `NoReply` as its code.
_NO_ANSWER: dict[str, NoReplyKind] = {
    "unclear": "unclear",
    "throttled": "throttled",
    "unreachable": "unreachable",
}
_UNPROCESSED = NoReply("the endpoint left the key unprocessed", "throttled")
# What reading an answer raises that is not as the API says: a proxy's page, half an answer.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
CANCELLED = "TransactionCanceledException"
_CONDITION_FAILED = "ConditionalCheckFailed"
_DUPLICATE = "DuplicateItem"  # so a statement says it; a put says that its condition failed
# DynamoDB Local 2.6.1, in a transaction: a ValidationError, told from others by this message alone.
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
# In a batch of statements DynamoDB Local says it without `Exception`.
_TABLE_MISSING = ("ResourceNotFoundException", "ResourceNotFound")


def error_code(answer: Mapping[str, Any]) -> str | None:
    """The error of an answer, if it is one."""
    error = answer.get("Error")
    return None if error is None else str(error.get("Code"))


def is_done(answer: Mapping[str, Any]) -> bool:
    """A write took effect if, and only if, its answer has no error (protocol B1)."""
    return error_code(answer) is None


def no_reply(answer: Mapping[str, Any]) -> NoReply:
    """What an error means of which nothing else follows."""
    error = answer.get("Error", {})
    code = str(error.get("Code", "unnamed error"))
    message = str(error.get("Message", ""))
    if code in _NO_ANSWER:
        return NoReply(message, _NO_ANSWER[code])
    if code in _TABLE_MISSING:  # only init and repair make tables (protocol B9)
        return NoReply("its table is gone: if its data is lost, repair it", "unreachable")
    return NoReply(f"{code}: {message}", "throttled" if code in _THROTTLED else "unclear")


def unless_refused(answer: Mapping[str, Any]) -> NoReply | None:
    """None where the condition of an update failed; anything else is no reply."""
    return None if error_code(answer) == _CONDITION_FAILED else no_reply(answer)


def insert_reply(answer: Mapping[str, Any]) -> WriteReply:
    """What the answer to one insert says."""
    if is_done(answer):
        return Done()
    return Unchanged() if error_code(answer) in (_DUPLICATE, _CONDITION_FAILED) else no_reply(answer)


def promised_before(answer: Mapping[str, Any], key: ItemKey) -> Promised | NoReply:
    """What was there before a promise: only an item that is there is updated, so the answer has to have it.

    An endpoint that leaves it out would have a held id taken for a free one.
    """
    try:
        item = answer["Item"]
        if key_of(item) == key:
            return Promised(stored_in(item))
    except UNREADABLE:
        pass
    return NoReply("a promise without the item that was there before it")


def no_answer(reply: NoReply) -> Mapping[str, Any]:
    """The answer to a statement of a request that got none."""
    return {"Error": {"Code": reply.kind, "Message": reply.reason}}


def answer_when_cancelled(reason: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the reason of one statement in a cancelled transaction says; None if it is to be sent again.

    That is where it was not the cause, met another transaction, or has a reason that we can't read: sent as
    a batch in the end, it gets an answer of its own.
    """
    code, message = str(reason.get("Code")), str(reason.get("Message", ""))
    if code == "ValidationError" and message == _DUPLICATE_MESSAGE:
        code = _DUPLICATE
    clear = code in (_DUPLICATE, _CONDITION_FAILED, *_THROTTLED)  # what is throttled waits for a pause
    return {"Error": {"Code": code, "Message": message}} if clear else None


def transacted(response: Mapping[str, Any], count: int) -> list[Mapping[str, Any] | None]:
    """The answers to a transaction of so many writes; None for what is to be sent again.

    One that was done is told from the answer of a proxy or a half-broken server by what it consumed. Taken
    for done, what was not would be held by two.
    """
    if is_done(response):
        if not any(isinstance(response.get(part), list) for part in ("ConsumedCapacity", "Responses")):
            raise ValueError("it does not say that a transaction was done")
        return [{}] * count
    reasons = response.get("CancellationReasons", [])
    if len(reasons) != count:
        return [response] * count
    return [answer_when_cancelled(reason) for reason in reasons]


def page_of(response: Mapping[str, Any]) -> Page:
    """A page of a scan or a query."""
    last = response.get("LastEvaluatedKey")
    items = (
        Scanned(key_of(item), item.get("e", {"S": ""})["S"], stored_in(item)) for item in response["Items"]
    )
    return Page(tuple(items), None if last is None else key_of(last))


def size_of(response: Mapping[str, Any]) -> StoreSize:
    """How much a table has, from its description."""
    table = response["Table"]
    return StoreSize(int(table["ItemCount"]), int(table["TableSizeBytes"]))


def items_of(response: Mapping[str, Any], table: str, wanted: Sequence[ItemKey]) -> list[ReadReply]:
    """What a read found for each key: absent is what was processed and is not there (protocol B8)."""
    found = {key_of(item): stored_in(item) for item in response["Responses"].get(table, [])}
    left = response.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
    unprocessed = {key_of(key) for key in left}
    return [_UNPROCESSED if key in unprocessed else found.get(key, ABSENT) for key in wanted]


def statements_of(response: Mapping[str, Any], count: int) -> list[Mapping[str, Any]]:
    """The answers to a batch of so many statements."""
    answers: list[Mapping[str, Any]] = response["Responses"]
    if len(answers) != count:
        raise ValueError(f"{len(answers)} answers to {count} statements")
    for answer in answers:
        answer.get("Error", answer).get("Code")  # or it can't be read
    return answers


def key_of(item: Mapping[str, Any]) -> ItemKey:
    """Where an item lies."""
    return ItemKey(item["p"]["S"], item["s"]["S"])


def stored_in(item: Mapping[str, Any]) -> Stored:
    """What an item says: without `t` there is no value, whatever else is there (protocol B8)."""

    def text(name: str) -> str | None:
        attribute = item.get(name)
        return None if attribute is None else str(attribute["S"])

    return Stored(text("t"), text("a") or FAST_BALLOT, text("b") or FAST_BALLOT)
