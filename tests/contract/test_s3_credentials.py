"""Whatever way boto3 finds credentials, objects and tables are reached by them; keys that end are renewed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow as pa
import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.session import Session
from deltalake import write_deltalake

from infra.servers.minio import MinioServer
from photon.pipeline.location import S3Folder
from photon.storage import s3, s3_credentials
from photon.storage.delta import LakeForbidden, lake_errors, open_table
from photon.storage.s3_credentials import CredentialsMissing, ProcessKeys
from photon.storage.store import store_of
from photon.storage.tables import OutputTable
from tests.faulty_s3 import FaultyS3
from tests.support.key_services import WAYS, Keys, KeyServices, StoreUsers

GIVEN, NEXT = Keys("first", "secret", "token"), Keys("second", "secret", "token")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin each test without this machine's credentials, and leave none behind."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    s3.forget_clients()
    yield
    s3.forget_clients()


@pytest.fixture
def services(tmp_path: Path) -> Iterator[KeyServices]:
    found = KeyServices(tmp_path, GIVEN)
    yield found
    found.close()


def use(monkeypatch: pytest.MonkeyPatch, services: KeyServices, way: str) -> None:
    for name, value in services.environment(way).items():
        monkeypatch.setenv(name, value)
    s3.forget_clients()


# -- the services themselves


@pytest.mark.parametrize("way", WAYS)
def test_boto3_itself_finds_the_keys_of_each_way(
    monkeypatch: pytest.MonkeyPatch, services: KeyServices, way: str
) -> None:
    use(monkeypatch, services, way)
    assert Session().get_credentials().get_frozen_credentials()[:3] == ("first", "secret", "token")
    if way != "environment":
        services.give(NEXT)
        assert Session().get_credentials().get_frozen_credentials().access_key == "second"


@pytest.mark.parametrize("path", ["/container", "/latest/meta-data/iam/security-credentials/photon"])
def test_the_services_give_nothing_to_who_has_no_token(services: KeyServices, path: str) -> None:
    with pytest.raises(HTTPError, match="401"):
        urlopen(services.url + path)
    assert services.asked == 0


# -- the keys of a process, by a clock of the test's own


class Chain:
    """What boto3's chain finds, with times of the test's own."""

    def __init__(self) -> None:
        self.now_seconds, self.asked, self.lasts_seconds = 0.0, 0, 3_600.0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.fails, self.method = False, "test"

    def ask(self) -> Credentials:
        self.asked += 1
        number, start = f"key-{self.asked}", datetime(2026, 1, 1, tzinfo=UTC)
        self.may_answer.wait()
        if self.fails:
            raise ValueError("the program ended with 1")
        if not self.lasts_seconds:
            return Credentials(number, "secret", method=self.method)
        ends = start + timedelta(seconds=self.now_seconds + self.lasts_seconds)
        again = {"access_key": number, "secret_key": "secret", "token": "token", "expiry_time": str(ends)}
        clock = lambda: start + timedelta(seconds=self.now_seconds)  # noqa: E731
        return RefreshableCredentials(
            number, "secret", "token", ends, lambda: again, self.method, clock, advisory_timeout=0
        )


@pytest.fixture
def chain() -> Iterator[Chain]:
    found = Chain()
    yield found
    found.may_answer.set()


@pytest.fixture
def keys(chain: Chain) -> ProcessKeys:
    return ProcessKeys(chain.ask, lambda: chain.now_seconds, wait_seconds=0.2)


def next_of(keys: ProcessKeys, before: str) -> str:
    """The key that a look in the background brings."""
    while (found := keys.now().access_key) == before:
        pass
    return found


def test_keys_are_renewed_before_they_end_and_nobody_waits_for_it(chain: Chain, keys: ProcessKeys) -> None:
    chain.lasts_seconds = s3_credentials.RENEWED_SECONDS + 100
    assert keys.now().access_key == "key-1"
    chain.now_seconds = 99
    assert (keys.now().access_key, chain.asked) == ("key-1", 1)
    chain.now_seconds = 101
    chain.may_answer.clear()
    assert keys.now().access_key == "key-1"
    chain.may_answer.set()
    assert next_of(keys, "key-1") == "key-2"


def test_wrong_keys_have_the_chain_asked_at_once_and_then_ever_less_often(
    chain: Chain, keys: ProcessKeys
) -> None:
    keys.now()
    chain.now_seconds = 60
    keys.refuse(are_wrong=True)
    assert keys.now().access_key == "key-2"
    asked = []
    for _ in range(200):
        chain.now_seconds += 1
        keys.refuse(are_wrong=True)
        asked.append(int(keys.now().access_key.removeprefix("key-")))
    assert [asked.index(number) + 1 for number in (3, 4, 5, 6, 7)] == [10, 30, 70, 130, 190]


def test_a_missing_right_makes_nobody_wait_and_keeps_keys_of_a_chain_that_fails(
    chain: Chain, keys: ProcessKeys
) -> None:
    keys.now()
    chain.now_seconds, chain.fails = 60, True
    for _ in range(9):
        keys.refuse(are_wrong=False)
        assert keys.now().access_key == "key-1"
    chain.fails, chain.now_seconds = False, 3_000
    assert next_of(keys, "key-1") == f"key-{chain.asked}"


def test_keys_without_an_end_are_looked_up_now_and_then(chain: Chain, keys: ProcessKeys) -> None:
    chain.lasts_seconds = 0
    keys.now()
    chain.now_seconds = s3_credentials.LOOKED_UP_SECONDS
    assert next_of(keys, "key-1") == "key-2"


def test_keys_of_another_way_are_taken_only_where_a_second_look_finds_them_too(
    chain: Chain, keys: ProcessKeys
) -> None:
    keys.now()
    chain.method, chain.now_seconds = "half a file was passed over", 60
    keys.refuse(are_wrong=True)
    assert keys.now().access_key == "key-1"
    chain.now_seconds += s3_credentials.MOST_PAUSE_SECONDS
    assert next_of(keys, "key-1") == "key-3"


def test_threads_that_need_keys_at_once_have_one_of_them_ask(chain: Chain, keys: ProcessKeys) -> None:
    chain.may_answer.clear()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(keys.now().access_key)) for _ in range(8)]
    for thread in threads:
        thread.start()
    chain.may_answer.set()
    for thread in threads:
        thread.join()
    assert found == ["key-1"] * 8


def test_a_program_that_hangs_is_told_and_keys_that_last_go_on(chain: Chain, keys: ProcessKeys) -> None:
    keys.now()
    chain.may_answer.clear()
    chain.now_seconds = 3_580
    assert keys.now().access_key == "key-1"
    chain.now_seconds = 3_600
    with pytest.raises(CredentialsMissing, match=r"within 0 s: look at the program or the service"):
        keys.now()
    assert chain.asked == 2
    hung, chain.may_answer = chain.may_answer, threading.Event()
    chain.may_answer.set()
    chain.now_seconds += s3_credentials.HUNG_SECONDS
    assert keys.now().access_key == "key-3"
    hung.set()
    assert keys.now().access_key == "key-3"


def test_keys_that_last_outlive_a_program_that_fails(chain: Chain, keys: ProcessKeys) -> None:
    keys.now()
    chain.fails, chain.now_seconds = True, 3_580
    while not keys.why:
        assert keys.now().access_key == "key-1"
    chain.now_seconds = 3_600
    with pytest.raises(CredentialsMissing, match=r"the program ended with 1\); set them as for boto3"):
        keys.now()


def test_a_child_of_a_fork_asks_by_itself(monkeypatch: pytest.MonkeyPatch, services: KeyServices) -> None:
    use(monkeypatch, services, "file")
    assert s3_credentials.keys_now().access_key == "first"
    services.give(NEXT)
    if (child := os.fork()) == 0:
        os._exit(0 if s3_credentials.keys_now().access_key == "second" else 1)
    assert os.waitpid(child, 0)[1] == 0


# -- a store


@pytest.fixture
def users(minio: MinioServer) -> StoreUsers:
    return StoreUsers(minio.url)


@pytest.mark.server
@pytest.mark.parametrize("way", WAYS)
def test_objects_and_tables_are_opened_by_each_way(
    monkeypatch: pytest.MonkeyPatch, services: KeyServices, users: StoreUsers, on_s3: S3Folder, way: str
) -> None:
    services.give(users.role_of(f"by-{way.replace(' ', '-')}"))
    use(monkeypatch, services, way)
    store_of(on_s3).create("a", lambda sink: sink.write(b"content"))
    assert store_of(on_s3).read("a") == b"content"
    assert s3.S3Store(on_s3).object("a\x01b") is None  # boto3 asks for such a key
    table = OutputTable(on_s3, "joined_events")
    table.create("searches", "east")
    assert table.load().version() == 0


@pytest.mark.server
def test_keys_that_are_rotated_open_what_was_open_before(
    monkeypatch: pytest.MonkeyPatch, services: KeyServices, users: StoreUsers, on_s3: S3Folder
) -> None:
    monkeypatch.setattr(s3_credentials, "FIRST_PAUSE_SECONDS", 0)
    services.give(users.add("old"))
    use(monkeypatch, services, "file")
    table, rows = OutputTable(on_s3, "joined_events"), pa.table({"row": range(9)})
    write_deltalake(table.store.url, rows, storage_options=table.store.delta_options)
    read = table.load().to_pyarrow_dataset()
    services.give(users.add("new"))
    users.end("old")
    with pytest.raises(PermissionError, match="shared-credentials-file"):  # the one refusal
        table.store.size_bytes("b")
    assert table.load().version() == 0
    assert table.store.size_bytes("b") is None
    assert read.to_table() == rows  # the handle of this dataset has keys that are gone


@pytest.mark.server
def test_keys_are_renewed_without_a_refusal_while_a_table_is_in_use(
    monkeypatch: pytest.MonkeyPatch, services: KeyServices, users: StoreUsers, on_s3: S3Folder
) -> None:
    monkeypatch.setattr(s3_credentials, "RENEWED_PAUSE_SECONDS", 0)
    services.give(users.role_of("ends-soon"))
    use(monkeypatch, services, "instance")
    table = OutputTable(on_s3, "joined_events")
    table.create("searches", "east")
    before = s3_credentials.keys_now()
    monkeypatch.setattr(s3_credentials, "RENEWED_SECONDS", 3_700)  # less than that is left of an hour
    services.give(users.role_of("lasts"))
    while s3_credentials.keys_now() == before:
        pass
    users.end("ends-soon")
    assert table.load().version() == 0
    assert open_table(table.folder).version() == 0


@pytest.mark.server
def test_head_of_keys_that_have_ended_is_known_for_a_refusal(
    monkeypatch: pytest.MonkeyPatch, services: KeyServices, on_s3: S3Folder, faulty: FaultyS3
) -> None:
    use(monkeypatch, services, "environment")
    faulty.meet("ended")
    with pytest.raises(PermissionError, match=r"ExpiredToken: The provided token has expired, at http"):
        store_of(replace(on_s3, endpoint_url=faulty.url)).size_bytes("a")


@pytest.mark.server
def test_a_refusal_of_head_is_told_in_the_words_of_get(
    monkeypatch: pytest.MonkeyPatch, services: KeyServices, on_s3: S3Folder
) -> None:
    services.give(Keys("nobody", "secret-of-nobody"))
    use(monkeypatch, services, "profile")
    says = r"InvalidAccessKeyId: .*: set others where boto3 finds them \(shared-credentials-file\)"
    with pytest.raises(PermissionError, match=says) as raised:
        store_of(on_s3).size_bytes("a")
    assert "grant" not in str(raised.value)
    with pytest.raises(LakeForbidden, match=says), lake_errors("read"):
        open_table(on_s3)
