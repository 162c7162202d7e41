"""Sources of objects: buckets of S3, Google Cloud Storage or Azure, and folders of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from photon.landing.objects.names import is_hidden
from photon.logs.discovery import GlobbedPaths
from photon.pipeline.location import S3Folder
from photon.pipeline.sections import Storage
from photon.storage.s3_credentials import CredentialsMissing
from photon.storage.store_errors import StoreUnavailable, reason_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from photon.storage.s3 import StoredObject

PIECE_BYTES = 2**23  # so much of an object is in memory
LISTED_AT_ONCE = 1_000
NEVER_EMPTY = (".parquet", ".avro")


class OtherVersion(Exception):
    """The object has another ETag than the one that was listed."""


class ObjectGone(Exception):
    """There is no such object any more."""


class ObjectRefused(Exception):
    """The store lets nobody with these rights read the object."""


class Objects(Protocol):
    """The objects below one folder of a store, as `photon.storage.s3.S3Store` has them."""

    def objects(self) -> Iterator[StoredObject]:
        """All objects. OSError."""

    def read_object(self, name: str, start_bytes: int, end_bytes: int) -> tuple[bytes, StoredObject]:
        """The bytes of an object, and which it was. FileNotFoundError, OSError."""


@dataclass(frozen=True)
class ObjectSource:
    """The objects that a pattern of keys names."""

    name: str  # as the pipeline file has it
    below: Objects
    pattern: str  # of keys below that folder
    folder: str  # of the bucket, for columns that its folders stand for
    place: Path | None = None  # of a folder of this machine

    def listed(self) -> Iterator[StoredObject]:
        """The objects that are to be landed, in the store's order. OSError."""
        if self.place is not None:
            check_folder(self.place)
        paths = GlobbedPaths(self.pattern)
        for one in self.below.objects():
            # Empty text has no lines, and an empty object may stand for a folder; Parquet is never empty.
            has_rows = one.size_bytes or one.name.endswith(NEVER_EMPTY)
            if has_rows and paths.match(one.name) and not is_hidden(one.name, self.pattern):
                yield one

    def check_rights(self) -> None:
        """Ask for something of the folder. PermissionError: not an object is refused, but who asks."""
        next(self.below.objects(), None)

    def refuse_empty(self) -> None:
        """Refuse an empty folder of this machine, of which objects are landed. FileNotFoundError."""
        if self.place is not None and not any(self.place.iterdir()):
            raise FileNotFoundError(
                f"{self.place} is empty, and objects of it are landed: is its disk mounted? If it is, put"
                " any file there"
            )

    def copy(self, one: StoredObject, sink: BinaryIO) -> None:
        """Write the bytes of this version of an object, and of no other.

        OtherVersion, ObjectGone, ObjectRefused, StoreUnavailable; OSError of the sink.
        """
        for start_bytes in range(0, one.size_bytes, PIECE_BYTES):
            sink.write(self._piece(one, start_bytes, min(start_bytes + PIECE_BYTES, one.size_bytes)))

    def _piece(self, one: StoredObject, start_bytes: int, end_bytes: int) -> bytes:
        try:
            data, found = self.below.read_object(one.name, start_bytes, end_bytes)
        except CredentialsMissing:
            raise
        except FileNotFoundError:
            raise ObjectGone(one.name) from None
        except PermissionError as error:
            raise ObjectRefused(str(error)) from None
        is_same = found.etag.strip('"') == one.etag.strip('"')  # Azure's listings have no quotes
        if not is_same or len(data) != end_bytes - start_bytes:  # each answer is of one version
            raise OtherVersion(one.name)
        return data


def source_of(objects: str, storage: Storage, folder: Path) -> ObjectSource:
    """The source that `objects` names. `folder`: of the pipeline file. OSError: a folder is not there."""
    scheme, _, rest = objects.rpartition("://")
    path = "/".join(part for part in rest.split("/") if part not in ("", "."))
    above = GlobbedPaths(path).folder.rstrip("/")
    pattern = path.removeprefix(f"{above}/")
    if not scheme:
        place = folder / ("/" * rest.startswith("/") + above)
        return ObjectSource(objects, ObstoreObjects(_local(place)), pattern, f"{above}/", place)
    bucket, _, key = above.partition("/")
    if scheme == "s3":
        from photon.storage.s3 import S3Store

        below: Objects = S3Store(S3Folder(bucket, key, storage.endpoint_url, storage.region))
    else:
        below = ObstoreObjects(_of_cloud(scheme, bucket, key))
    return ObjectSource(objects, below, pattern, f"{key}/")


def check_folder(place: Path) -> None:
    """FileNotFoundError if there is no folder, as where a disk is not mounted."""
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: expected a folder with objects to land")


def _local(place: Path) -> ObjectStore:
    from obstore.store import LocalStore

    check_folder(place)
    return LocalStore(place)


def _of_cloud(scheme: str, bucket: str, key: str) -> ObjectStore:
    """A bucket of Google's or a container of Azure's, with what the environment says of credentials."""
    from obstore.store import AzureStore, GCSStore

    with _errors(bucket):
        return (GCSStore if scheme == "gs" else AzureStore)(bucket, prefix=key or None)


class ObstoreObjects:
    """Objects by obstore alone."""

    def __init__(self, client: ObjectStore) -> None:
        self._client = client

    def objects(self) -> Iterator[StoredObject]:
        import obstore

        from photon.storage.s3 import StoredObject

        with _errors(""):
            for chunk in obstore.list(self._client, chunk_size=LISTED_AT_ONCE):
                yield from map(StoredObject.of, chunk)

    def read_object(self, name: str, start_bytes: int, end_bytes: int) -> tuple[bytes, StoredObject]:
        import obstore

        from photon.storage.s3 import StoredObject

        with _errors(name):
            found = obstore.get(self._client, name, options={"range": (start_bytes, end_bytes)})
            return found.bytes().to_bytes(), StoredObject.of(found.meta)


@contextmanager
def _errors(name: str) -> Iterator[None]:
    from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise FileNotFoundError(f"{name}: {reason_of(error)}") from None
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise PermissionError(f"{name}: {reason_of(error)}") from None
    except BaseError as error:
        raise StoreUnavailable(f"{name}: {reason_of(error)}") from None
