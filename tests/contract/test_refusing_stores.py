"""Data files (obstore) and tables (delta-rs) say the same of an S3 store that can't be used."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minio import MinioAdmin
from minio.credentials import StaticProvider

from infra.servers.minio import CREDENTIALS, PASSWORD, USER, MinioServer
from photon.pipeline.location import S3Folder
from photon.registry.register import Members
from photon.registry.view_store import ViewStore, ViewUnavailable
from photon.storage import s3
from photon.storage.delta import LakeForbidden, LakeUnavailable
from photon.storage.store import store_of
from photon.storage.tables import OutputTable
from tests.conftest import BUCKET
from tests.registry.store_backends import first_register

NO_CREDENTIALS = "there are no credentials.*; set them as for boto3, such as AWS_ACCESS_KEY_ID and"
OTHERS = "the store refuses these credentials: set others in the environment, and start again what has these"
GRANT = "grant these credentials the right to read, write and list there"


def write(folder: S3Folder) -> None:
    store_of(folder).create("a", lambda sink: sink.write(b"content"))


def make_table(folder: S3Folder) -> None:
    OutputTable(folder, "joined_events").create("searches", "east")


@pytest.fixture(params=[write, make_table])
def use(request: pytest.FixtureRequest) -> Callable[[S3Folder], None]:
    """Return an action that uses the store."""
    tried: Callable[[S3Folder], None] = request.param
    return tried


@pytest.fixture(autouse=True)
def own_credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin each test without this machine's credentials, and leave no client behind."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(s3, "RETRIES", 0)
    s3.forget_clients()
    yield
    s3.forget_clients()


def with_credentials(monkeypatch: pytest.MonkeyPatch, **others: str) -> None:
    for name, value in {**CREDENTIALS, **others}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("profile", [None, "nobody"])
def test_without_credentials_nothing_is_asked_and_it_is_said_how_to_set_them(
    use: Callable[[S3Folder], None], monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    if profile is not None:
        monkeypatch.setenv("AWS_PROFILE", profile)
    with pytest.raises((PermissionError, LakeForbidden), match=NO_CREDENTIALS) as raised:
        use(S3Folder(BUCKET, "lake", "http://127.0.0.1:9"))
    assert "s3://photon/lake" in str(raised.value)


@pytest.mark.server
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("AWS_SECRET_ACCESS_KEY", "not-the-secret", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "not-the-secret", "InvalidAccessKeyId"),
    ],
)
def test_credentials_that_are_refused_are_told_without_them(
    minio: MinioServer,
    use: Callable[[S3Folder], None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    says: str,
) -> None:
    with_credentials(monkeypatch, **{name: value})
    with pytest.raises((PermissionError, LakeForbidden), match=f"{says}: .*; {OTHERS}") as raised:
        use(S3Folder(BUCKET, "lake", minio.url))
    chain = "".join(traceback.format_exception(raised.value))
    assert not [secret for secret in ("not-the-secret", "Signature=", "StringToSign") if secret in chain]


@pytest.mark.server
def test_credentials_without_a_right_are_told_which_to_grant(
    minio: MinioServer, use: Callable[[S3Folder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = minio.url.removeprefix("http://")
    admin = MinioAdmin(endpoint=address, credentials=StaticProvider(USER, PASSWORD), secure=False)
    admin.user_add("guest", "guest-of-minio")
    with_credentials(monkeypatch, AWS_ACCESS_KEY_ID="guest", AWS_SECRET_ACCESS_KEY="guest-of-minio")
    with pytest.raises((PermissionError, LakeForbidden), match=f"AccessDenied: .*; {GRANT}"):
        use(S3Folder(BUCKET, "lake", minio.url))


@pytest.mark.server
def test_a_bucket_that_is_missing_is_told_with_what_to_do(
    minio: MinioServer, use: Callable[[S3Folder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_credentials(monkeypatch)
    with pytest.raises((OSError, LakeUnavailable), match=r"NoSuchBucket: .*; make the bucket, or") as raised:
        use(S3Folder("no-such-bucket", "lake", minio.url))
    assert not isinstance(raised.value, LakeForbidden)
    assert "s3://no-such-bucket/lake" in str(raised.value)


def test_a_store_that_does_not_answer_is_named(
    use: Callable[[S3Folder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_credentials(monkeypatch)
    says = "s3://photon/lake.*, at http://127.0.0.1:9$"
    with pytest.raises((OSError, LakeUnavailable), match=says) as raised:
        use(S3Folder(BUCKET, "lake", "http://127.0.0.1:9"))
    assert not isinstance(raised.value, (PermissionError, LakeForbidden))


@pytest.mark.server
def test_a_view_in_a_store_that_refuses_is_not_called_damaged(
    minio: MinioServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_credentials(monkeypatch, AWS_SECRET_ACCESS_KEY="not-the-secret")
    view = ViewStore(tmp_path, S3Folder(BUCKET, "runs", minio.url))
    with pytest.raises(ViewUnavailable, match=f"{OTHERS}.*: the view is not damaged") as raised:
        view.load(first_register(Members(1, ("a",))), "east")
    view.close()
    assert "remove" not in str(raised.value)
