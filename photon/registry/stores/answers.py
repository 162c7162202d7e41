"""Read what is wrong where boto3 raises an error. Pure.

Error codes are those of AWS, DynamoDB Local 2.6.1, and dynoxide 1.2.1 and 3.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

from photon.process.pages import page
from photon.registry.stores.copies import NoReply

# All that a request may end with. The last four are raised by reading an answer that breaks the API, such as
# a proxy's page or half an answer.
ERRORS = (
    ClientError,
    BotoCoreError,
    ResponseParserError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)
_THROTTLED = (
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
)
LACKS_A_RIGHT = ("AccessDeniedException", "NotAuthorized", "OptInRequired")
DENIED = (
    *LACKS_A_RIGHT,
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "UnrecognizedClientException",
)
_TABLE_MISSING = "ResourceNotFoundException"
_MEND_RIGHTS = (
    f"mend its credentials or rights ({page('docs/operations/registry.md')}: "
    "an endpoint that does not let Photon in)"
)


def error_code(error: Exception) -> str | None:
    """The code of an error that the store answered with."""
    if not isinstance(error, ClientError):
        return None
    return str(error.response.get("Error", {}).get("Code"))


def no_reply(error: Exception) -> NoReply:
    """Why there is no reply: in spite of any of `ERRORS` the request may have been applied."""
    match error:
        case ClientError():
            return _of_answer(error.response)
        case NoCredentialsError() | PartialCredentialsError() | CredentialRetrievalError():
            return _denied(str(error))
        case BotoCoreError():
            return NoReply(str(error), "unreachable")
    return NoReply(f"an answer that can't be read: {error!r}")


def _of_answer(answer: Mapping[str, Any]) -> NoReply:
    error = answer.get("Error", {})
    code = str(error.get("Code", "unnamed error"))
    if code == _TABLE_MISSING:  # only init and repair make tables (protocol B9)
        return NoReply("its table is gone: if its data is lost, repair it", "unreachable")
    reason = f"{code}: {error.get('Message', '')}"
    if code in DENIED:
        return _denied(reason)
    return NoReply(reason, "throttled" if code in _THROTTLED else "unclear")


def _denied(reason: str) -> NoReply:
    return NoReply(f"{reason}; {_MEND_RIGHTS}", "denied")
