"""Objects whose keys obstore refuses (`a//b`, `a/../b`, control characters): listed and read by boto3.

One such key fails a whole listing of obstore, and people's tools write them. All others go by obstore, which
takes a fifth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from boto3 import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from photon.storage.s3_credentials import refused
from photon.storage.store_errors import REFUSALS, REMEDIES, StoreUnavailable

Answer = dict[str, Any]  # boto3's: Size, ETag, LastModified, and Key or Body

_ODD_PART = re.compile(r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f]")


def is_odd(name: str) -> bool:
    """Whether obstore refuses the name of an object: an empty part, `.`, `..`, or a control character."""
    return _ODD_PART.search(name) is not None


def is_about_a_key(error: Exception) -> bool:
    """Whether obstore has ended a listing because of a key."""
    return "invalid path" in str(error)


class OddObjects:
    """The objects of a bucket, any key. FileNotFoundError, PermissionError, StoreUnavailable."""

    def __init__(self, session: Session, bucket: str, endpoint_url: str | None, region: str) -> None:
        retries = Config(retries={"max_attempts": 3, "mode": "standard"}, connect_timeout=5, read_timeout=30)
        self._client: Any = session.client(
            "s3", endpoint_url=endpoint_url, region_name=region, config=retries
        )
        self._bucket = bucket

    def list(self, prefix: str, after: str) -> Iterator[Answer]:
        """Those whose keys begin so and sort behind a key, in the order of their keys."""
        with _errors():
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix, StartAfter=after):
                yield from page.get("Contents", ())

    def head(self, key: str) -> Answer:
        """All there is to know of an object but its bytes."""
        with _errors():
            found: Answer = self._client.head_object(Bucket=self._bucket, Key=key)
            return found | {"Size": found["ContentLength"]}

    def read(self, key: str, start_bytes: int, end_bytes: int) -> tuple[bytes, Answer]:
        """The bytes of an object, up to its end, and what it is."""
        span = f"bytes={start_bytes}-{end_bytes - 1}"
        with _errors():
            try:
                found: Answer = self._client.get_object(Bucket=self._bucket, Key=key, Range=span)
            except ClientError as error:
                if error.response["Error"]["Code"] != "InvalidRange":
                    raise
                return b"", self.head(key)
            return found["Body"].read(), found | {"Size": int(found["ContentRange"].rpartition("/")[2])}


@contextmanager
def _errors() -> Iterator[None]:
    """Raise what goes wrong as obstore's errors are; S3's own message may have the key's id."""
    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("404", "NoSuchKey"):
            raise FileNotFoundError(code) from None
        if code in REFUSALS or code == "403":
            raise PermissionError(f"{code}; {refused(code)}") from None
        raise StoreUnavailable(code + (f"; {REMEDIES[code]}" if code in REMEDIES else "")) from None
    except BotoCoreError as error:
        raise StoreUnavailable(str(error)) from None
