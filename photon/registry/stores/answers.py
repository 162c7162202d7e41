"""Read what is wrong with an answer that is an error. Pure.

Error codes are those of AWS, DynamoDB Local 2.6.1, and dynoxide 1.2.1 and 3.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from photon.registry.stores.copies import NoReply

# Raised by reading an answer that breaks the API, such as a proxy's page or half an answer.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
_THROTTLED = (
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
)
_DENIED = (
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
_TABLE_MISSING = "ResourceNotFoundException"
_MEND_RIGHTS = (
    "mend this endpoint's credentials or rights (docs/operations.md: an endpoint that does not let Photon in)"
)


def error_code(answer: Mapping[str, Any]) -> str | None:
    """The error of an answer, if it is one."""
    error = answer.get("Error")
    return None if error is None else str(error.get("Code"))


def no_reply(answer: Mapping[str, Any]) -> NoReply:
    """Why an error is no reply."""
    error = answer.get("Error", {})
    code = str(error.get("Code", "unnamed error"))
    if code == _TABLE_MISSING:  # only init and repair make tables (protocol B9)
        return NoReply("its table is gone: if its data is lost, repair it", "unreachable")
    reason = f"{code}: {error.get('Message', '')}"
    if code in _DENIED:
        return denied(reason)
    return NoReply(reason, "throttled" if code in _THROTTLED else "unclear")


def denied(reason: str) -> NoReply:
    """No reply for want of credentials or rights, with what to do."""
    return NoReply(f"{reason}; {_MEND_RIGHTS}", "denied")
