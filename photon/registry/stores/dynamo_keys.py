"""Keys for endpoints with the DynamoDB API, looked up as those for S3 are: of each profile and role."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    Credentials,
    DeferredRefreshableCredentials,
    ReadOnlyCredentials,
)
from botocore.exceptions import CredentialRetrievalError
from botocore.session import Session

from photon.registry.stores.answers import DENIED, LACKS_A_RIGHT
from photon.storage.s3_credentials import CredentialsMissing, ProcessKeys, own_keys

_STS_SECONDS = 5
_SESSION = "photon"  # how CloudTrail names who assumed a role


class KeysNow(Credentials):
    """The keys of the moment, which boto3 asks for at each request."""

    def __init__(self, keys: Callable[[], ProcessKeys]) -> None:
        super().__init__("", "", method="photon")
        self._keys_of_now = keys

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Raises CredentialRetrievalError."""
        try:
            return self._keys_of_now().now()
        except CredentialsMissing as error:
            raise CredentialRetrievalError(provider="boto3", error_msg=str(error)) from None


def keys_of(profile: str | None, role: str | None, region: str) -> ProcessKeys:
    """The keys of a profile or a role; those of this process where neither is named."""
    return own_keys() if profile is None and role is None else _keys_of(profile, role, region)


@lru_cache
def _keys_of(profile: str | None, role: str | None, region: str) -> ProcessKeys:
    return ProcessKeys(partial(_ask_boto3, profile, role, region))


def heed_refusal(keys: Callable[[], ProcessKeys], parsed: dict[str, Any], **_: object) -> None:
    """Have the keys of the next request looked up anew where an answer refuses these."""
    if (code := parsed.get("Error", {}).get("Code")) in DENIED:
        keys().refuse(are_wrong=code not in LACKS_A_RIGHT)


def _ask_boto3(profile: str | None, role: str | None, region: str) -> Credentials | None:
    """Credentials from boto3's chain or a profile, or of a role that is assumed with them."""
    core = Session(profile=profile)
    found: Credentials | None = core.get_credentials()
    if role is None or found is None:
        return found
    config = Config(connect_timeout=_STS_SECONDS, read_timeout=_STS_SECONDS)
    sts = partial(core.create_client, region_name=region, config=config)
    fetcher = AssumeRoleCredentialFetcher(sts, found, role, extra_args={"RoleSessionName": _SESSION})
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
