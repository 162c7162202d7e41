"""Objects of an S3 bucket, or of a store that speaks S3 (MinIO), by obstore.

Each request is made with the keys that this process has then (`s3_credentials`), and no message has them.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

import obstore
import pyarrow as pa
from boto3 import Session
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store as Client

from photon.pipeline.location import OutsideFolder, S3Folder, is_inside
from photon.process.clock import MICROSECONDS
from photon.storage.odd_keys import Answer, OddObjects, is_about_a_key, is_odd
from photon.storage.s3_credentials import CredentialsMissing, forget_keys, keys_now, refused
from photon.storage.store_errors import (
    StoreUnavailable,
    code_of,
    is_refusal,
    is_without_bucket,
    is_wordless,
    reason_of,
)

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from obstore import ObjectMeta, PutMode
    from obstore.store import S3Credential

REQUEST_TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=5)
# For one call. A caller that waits longer for a lake says so once (`retrying.BackoffRetry`); here nobody can.
RETRIES, RETRY_TIMEOUT = 3, timedelta(seconds=10)
READ_WHOLE_BYTES = 2**20  # one request for a small file costs less than one for its footer and one a column
PUT_IN_MEMORY_BYTES = 2**24  # a bigger object is on disk until it is sent, in parts
LISTED_AT_ONCE = 1_000  # as many as a request lists
DEFAULT_REGION = "us-east-1"  # MinIO takes any


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store tells of it."""

    name: str
    size_bytes: int
    etag: str  # another one for other bytes
    modified_us: int

    @classmethod
    def of(cls, meta: ObjectMeta) -> StoredObject:
        modified_us = round(meta["last_modified"].timestamp() * MICROSECONDS)
        return cls(meta["path"], meta["size"], meta["e_tag"] or "", modified_us)

    @classmethod
    def of_odd(cls, name: str, answer: Answer) -> StoredObject:
        """The same of an object that boto3 tells of."""
        modified_us = round(answer["LastModified"].timestamp() * MICROSECONDS)
        return cls(name, answer["Size"], answer["ETag"], modified_us)


class S3Store:
    """The objects below a key of a bucket."""

    is_durable = True

    def __init__(self, folder: S3Folder) -> None:
        self._folder = folder

    @property
    def url(self) -> str:
        return str(self._folder)

    @property
    def delta_options(self) -> dict[str, str]:
        """The keys of now among them: delta-rs would find others than boto3. CredentialsMissing."""
        keys = keys_now()
        options = {
            "aws_access_key_id": keys.access_key,
            "aws_secret_access_key": keys.secret_key,
            "aws_session_token": keys.token or "",  # else it takes one that is in the environment
            "aws_conditional_put": "etag",  # a commit is an object that nobody else has made
            "max_retries": str(RETRIES),
            "retry_timeout": f"{RETRY_TIMEOUT.total_seconds():.0f}s",
            "timeout": f"{REQUEST_TIMEOUT.total_seconds():.0f}s",
            "connect_timeout": f"{CONNECT_TIMEOUT.total_seconds():.0f}s",
        }
        if (endpoint_url := endpoint_url_of(self._folder)) is not None:
            options["aws_endpoint_url"] = endpoint_url
            options["aws_allow_http"] = str(_is_http(endpoint_url)).lower()
        return options | {"aws_region": region_of(self._folder)}

    def size_bytes(self, name: str) -> int | None:
        try:
            with self._errors(name):
                return int(obstore.head(self._client, name)["size"])
        except FileNotFoundError:
            return None

    def changed_us(self, name: str) -> int:
        with self._errors(name):
            return int(obstore.head(self._client, name)["last_modified"].timestamp() * 1_000_000)

    def read(self, name: str, start_bytes: int = 0, end_bytes: int | None = None) -> bytes:
        with self._errors(name):
            if end_bytes is None:
                found = obstore.get(self._client, name, options={"range": {"offset": start_bytes}}).bytes()
            else:
                found = obstore.get_range(self._client, name, start=start_bytes, end=end_bytes)
        return found.to_bytes()

    def open(self, name: str) -> pa.NativeFile:
        with self._errors(name):
            try:
                found = obstore.get(self._client, name, options={"range": (0, READ_WHOLE_BYTES)})
            except GenericError as error:
                if not _is_beyond_the_end(error):
                    raise
                return pa.BufferReader(b"")  # an empty object has no range
            if (size_bytes := found.meta["size"]) <= READ_WHOLE_BYTES:
                return pa.BufferReader(found.bytes().to_bytes())
        return pa.PythonFile(_Ranges(self, name, size_bytes), mode="r")

    def create(self, name: str, write: Callable[[BinaryIO], None]) -> int:
        content = io.BytesIO()
        write(content)
        with self._errors(name):
            # Only a put at once can be refused where there is an object; those of several parts replace it.
            obstore.put(self._client, name, content.getvalue(), mode="create", use_multipart=False)
        return content.tell()

    def put(self, name: str, write: Callable[[BinaryIO], None]) -> None:
        with tempfile.SpooledTemporaryFile(PUT_IN_MEMORY_BYTES) as content:
            write(content)  # type: ignore[arg-type]  # it is one but by name
            content.seek(0)
            with self._errors(name):
                obstore.put(self._client, name, content)

    def version(self, name: str) -> str | None:
        try:
            with self._errors(name):
                return obstore.head(self._client, name)["e_tag"] or ""
        except FileNotFoundError:
            return None

    def versions(self, first: str, second: str) -> dict[str, str]:
        listed = self.objects(first.rpartition("/")[0], after=first[:-1])
        return {each.name: each.etag for each in islice(listed, LISTED_AT_ONCE)}

    def read_version(self, name: str) -> tuple[bytes, str]:
        with self._errors(name):
            found = obstore.get(self._client, name)
            return found.bytes().to_bytes(), found.meta["e_tag"] or ""

    def swap(self, name: str, data: bytes, version: str) -> None:
        mode: PutMode = {"e_tag": version} if version else "create"
        with self._errors(name):
            obstore.put(self._client, name, data, mode=mode, use_multipart=False)

    def names(self, prefix: str = "") -> Iterator[str]:
        with self._errors(prefix):
            # From just before the prefix: a folder of many files is not listed from its beginning.
            for found in chain.from_iterable(obstore.list(self._client, offset=prefix[:-1] or None)):
                name = found["path"]
                if name.startswith(prefix) and "/" not in name:
                    yield name
                elif name > prefix and not name.startswith(prefix):
                    return

    def objects(self, below: str = "", after: str = "") -> Iterator[StoredObject]:
        """The objects below a folder, and below those in it, in the order of their names, from one on."""
        with self._errors(below):
            try:
                listed = obstore.list(
                    self._client, below.strip("/") or None, offset=after or None, chunk_size=LISTED_AT_ONCE
                )
                for chunk in listed:
                    for each in chunk:
                        after = each["path"]
                        yield StoredObject.of(each)
            except BaseError as error:
                if not is_about_a_key(error):
                    raise
                yield from self._odd_objects(below, after)

    def _odd_objects(self, below: str, after: str) -> Iterator[StoredObject]:
        """The same where a key is odd: from that page on, and whatever the keys."""
        root = self._key("")
        prefix = root + (f"{below.strip('/')}/" if below.strip("/") else "")
        for each in self._odd.list(prefix, root + after if after else ""):
            if each["Size"] or not each["Key"].endswith("/"):  # else it stands for a folder
                yield StoredObject.of_odd(each["Key"].removeprefix(root), each)

    def object(self, name: str) -> StoredObject | None:
        """The object of this name, if there is one."""
        try:
            with self._errors(name, any_key=True):
                if is_odd(name):
                    return StoredObject.of_odd(name, self._odd.head(self._key(name)))
                return StoredObject.of(obstore.head(self._client, name))
        except FileNotFoundError:
            return None

    def read_object(self, name: str, start_bytes: int, end_bytes: int) -> tuple[bytes, StoredObject]:
        """The bytes of an object from `start_bytes` up to `end_bytes` or its end, and which it was.

        FileNotFoundError, OSError.
        """
        with self._errors(name, any_key=True):
            if is_odd(name):
                data, answer = self._odd.read(self._key(name), start_bytes, end_bytes)
                return data, StoredObject.of_odd(name, answer)
            try:
                found = obstore.get(self._client, name, options={"range": (start_bytes, end_bytes)})
            except GenericError as error:
                if not _is_beyond_the_end(error):
                    raise
                return b"", StoredObject.of(obstore.head(self._client, name))
            return found.bytes().to_bytes(), StoredObject.of(found.meta)

    def sizes(self) -> dict[str, int]:
        return {found.name: found.size_bytes for found in self.objects()}

    def remove_folder(self, name: str) -> None:
        self.remove(*(found.name for found in self.objects(name)))

    def remove(self, *names: str) -> None:
        if names:
            with self._errors(next((name for name in names if not is_inside(name)), names[0])):
                obstore.delete(self._client, list(names))

    def make(self) -> None:
        pass  # an object's key makes its folders

    def sync(self, *names: str) -> None:
        pass  # an object that was put is safe

    @property
    def _client(self) -> Client:
        keys_now()  # obstore's words of missing ones are others
        return _client(self._folder)

    @property
    def _odd(self) -> OddObjects:
        return _odd_objects(self._folder, keys_now())

    def _key(self, name: str) -> str:
        return f"{self._folder.key}/{name}" if self._folder.key else name

    @contextmanager
    def _errors(self, name: str, any_key: bool = False) -> Iterator[None]:
        """Raise what goes wrong with an object as OSError that says what was done to which one.

        `any_key`: a log's key, which no table or document gives, may look as if it led out.
        """
        if not (is_inside(name) or any_key):
            raise OutsideFolder(self.url, name)
        try:
            yield
        except CredentialsMissing as error:
            raise CredentialsMissing(f"{self._folder / name}: {error}") from None
        except (NotFoundError, FileNotFoundError) as error:
            said = f"{self._folder / name}: {reason_of(error)}"
            # Without its bucket nobody knows of an object: the endpoint may be another one.
            raise (StoreUnavailable if is_without_bucket(error) else FileNotFoundError)(said) from None
        except (AlreadyExistsError, PreconditionError, FileExistsError):
            raise FileExistsError(f"{self._folder / name} is there already") from None
        except (BaseError, ValueError, OSError) as error:
            told = self._of_get(name) or error if is_wordless(error) else error
            if isinstance(told, PermissionDeniedError | UnauthenticatedError) or is_refusal(told):
                said = reason_of(told, refused(code_of(told)))
                raise PermissionError(f"{self._folder / name}: {said}") from None
            raise StoreUnavailable(f"{self._folder / name}: {reason_of(told)}") from None

    def _of_get(self, name: str) -> Exception | None:
        """The error of a GET of an object, in the store's words."""
        try:
            obstore.get_range(_client(self._folder), name, start=0, end=1)
        except (BaseError, ValueError, OSError) as error:
            return error
        return None


def _is_beyond_the_end(error: GenericError) -> bool:
    return "416 Range Not Satisfiable" in str(error)


class _Ranges(io.RawIOBase):
    """An object as a file that is read here and there, by one request a read."""

    def __init__(self, store: S3Store, name: str, size_bytes: int) -> None:
        self._store, self._name, self._size_bytes = store, name, size_bytes
        self._at_bytes = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start_bytes = {io.SEEK_SET: 0, io.SEEK_CUR: self._at_bytes, io.SEEK_END: self._size_bytes}[whence]
        self._at_bytes = start_bytes + offset
        return self._at_bytes

    def tell(self) -> int:
        return self._at_bytes

    def read(self, size: int = -1) -> bytes:
        end_bytes = self._size_bytes if size < 0 else min(self._at_bytes + size, self._size_bytes)
        if end_bytes <= self._at_bytes:
            return b""
        found = self._store.read(self._name, self._at_bytes, end_bytes)
        self._at_bytes = end_bytes
        return found


def _keys_for_obstore() -> S3Credential:
    keys = keys_now()
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "token": keys.token or None,
        "expires_at": datetime.now(UTC),  # so obstore asks again for each request
    }


@lru_cache
def _client(folder: S3Folder) -> Client:
    """A client of this process: its connections do not outlast a fork, so it is made in the task."""
    endpoint_url = endpoint_url_of(folder)
    return Client(
        folder.bucket,
        prefix=folder.key or None,
        config={"region": region_of(folder), **({"endpoint": endpoint_url} if endpoint_url else {})},
        client_options={
            "timeout": REQUEST_TIMEOUT,
            "connect_timeout": CONNECT_TIMEOUT,
            "allow_http": _is_http(endpoint_url),
        },
        retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_TIMEOUT},
        credential_provider=_keys_for_obstore,
    )


@lru_cache(maxsize=16)  # keys of a role are others every hour
def _odd_objects(folder: S3Folder, keys: ReadOnlyCredentials) -> OddObjects:
    session = Session(keys.access_key, keys.secret_key, keys.token)
    return OddObjects(session, folder.bucket, endpoint_url_of(folder), region_of(folder))


def endpoint_url_of(folder: S3Folder) -> str | None:
    """The pipeline file's, else boto3's own variables; None: AWS."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    return folder.endpoint_url or next((os.environ[name] for name in names if os.environ.get(name)), None)


def _is_http(endpoint_url: str | None) -> bool:
    return endpoint_url is not None and endpoint_url.startswith("http:")


@lru_cache  # a session of boto3 reads its files anew, and each handle on a table asks
def region_of(folder: S3Folder) -> str:
    """The pipeline file's, else boto3's."""
    return folder.region or Session().region_name or DEFAULT_REGION


def forget_clients() -> None:
    """Look credentials up anew, for whoever has changed them in this process."""
    forget_keys()
    _client.cache_clear()
    _odd_objects.cache_clear()
    region_of.cache_clear()
