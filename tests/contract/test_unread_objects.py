"""An object that a store lists and does not give holds back what it may change, as a file does (D11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minio import MinioAdmin
from minio.credentials import StaticProvider

from infra.servers.minio import CREDENTIALS, PASSWORD, USER, MinioServer
from photon.dispatcher.log_reader import opened_logs
from photon.logs.on_s3 import objects
from photon.logs.tailing.retry_times import MOST_PAUSE_US
from photon.logs.unread_files import UnreadFile
from photon.pipeline.location import S3Folder
from photon.process.clock import MICROSECONDS
from photon.state.losses import losses_of, plan_acknowledgement
from photon.state.view import StateView, view_state
from photon.storage import s3
from photon.storage.store import store_of
from tests.conftest import BUCKET
from tests.faulty_s3 import FaultyS3
from tests.simulation.unread_stories import SOON, lines_of
from tests.simulation.world import World, assert_counts

pytestmark = pytest.mark.server

GUEST = {"AWS_ACCESS_KEY_ID": "guest", "AWS_SECRET_ACCESS_KEY": "guest-of-minio"}
Hiding = Callable[[S3Folder, str], Callable[[], None]]  # what lets objects of this name be read again


@pytest.fixture(autouse=True)
def own_clients() -> Iterator[None]:
    """Begin without the clients and objects of other tests, and leave none behind."""
    s3.forget_clients()
    objects._beginnings.clear()
    yield
    s3.forget_clients()
    objects._beginnings.clear()


def forbidden(minio: MinioServer, patch: pytest.MonkeyPatch) -> Hiding:
    """Read with the credentials of a guest whom a policy of MinIO keeps from some objects."""
    address = minio.url.removeprefix("http://")
    admin = MinioAdmin(endpoint=address, credentials=StaticProvider(USER, PASSWORD), secure=False)

    def allow(folder: S3Folder, name: str | None) -> None:
        all_objects = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}
        denied = {"Effect": "Deny", "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::*/{name}"]}
        statements = [all_objects] if name is None else [all_objects, denied]
        admin.policy_add("guests", policy={"Version": "2012-10-17", "Statement": statements})

    def hide(folder: S3Folder, name: str) -> Callable[[], None]:
        admin.user_add("guest", GUEST["AWS_SECRET_ACCESS_KEY"])
        allow(folder, name)
        admin.policy_set("guests", user="guest")
        for key, value in {**CREDENTIALS, **GUEST}.items():
            patch.setenv(key, value)
        s3.forget_clients()
        return lambda: allow(folder, None)

    return hide


def archived(faulty: FaultyS3) -> Hiding:
    """Answer as S3 does for objects in Glacier."""

    def hide(folder: S3Folder, name: str) -> Callable[[], None]:
        part = name.strip("*")
        faulty.meet("archived", among=lambda method, path: part in path.partition("?")[0])
        return faulty.mend

    return hide


@pytest.fixture(params=["forbidden", "archived"])
def hide(
    request: pytest.FixtureRequest, minio: MinioServer, faulty: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> Hiding:
    """Have objects of a name refused."""
    return forbidden(minio, monkeypatch) if request.param == "forbidden" else archived(faulty)


@pytest.fixture
def logs(faulty: FaultyS3, tmp_path: Path) -> S3Folder:
    """A folder for logs in a bucket."""
    return S3Folder(BUCKET, tmp_path.name, faulty.url)


@pytest.fixture
def world(tmp_path: Path, logs: S3Folder) -> World:
    """A world whose logs are objects; its lake and state are on this disk."""
    world = World(tmp_path, more=SOON)
    east = world.pipeline.datacenters["east"].model_copy(update={"logs": logs})
    world.use(world.pipeline.model_copy(update={"datacenters": {"east": east}}))
    return world


def put(logs: S3Folder, name: str, data: bytes) -> None:
    store_of(logs).create(name, lambda sink: sink.write(data))


def view_of(world: World) -> StateView:
    return view_state(world.state(), world.clock.now_us())


def unread_of(world: World) -> tuple[UnreadFile, ...]:
    return opened_logs(world.pipeline, "east", view_of(world), world.clock.now_us()).unread()


def test_an_object_that_is_refused_is_named_holds_and_joins_when_it_is_given(
    world: World, logs: S3Folder, hide: Hiding
) -> None:
    """Broken variant: its clicks are given up as of a primary that does not exist."""
    primaries = lines_of("queries", ("", "q1"))
    put(logs, "queries/bad.jsonl", primaries)
    put(logs, "queries/good.jsonl", lines_of("queries", ("", "q2")))
    put(logs, "clicks/a.jsonl", lines_of("clicks", ("c1", "q1"), ("c2", "q2")))
    give = hide(logs, "*bad.jsonl")
    assert_counts(world.join(mode="complete").counts, joined=1, pending=1, unjoinable=0)
    (one,) = view_of(world).unread
    assert (one.path, one.size_bytes) == ("queries/bad.jsonl", len(primaries))
    assert "AccessDenied" in one.reason or "restore the object from its archive" in one.reason
    world.clock.advance(3_600)
    world.forget()
    assert_counts(world.join(mode="complete").counts, pending=1, unjoinable=0)
    give()
    world.clock.advance(MOST_PAUSE_US / MICROSECONDS)
    assert_counts(world.join(mode="complete").counts, joined=2, pending=0)
    assert world.joined_ids() == ["c1", "c2"]
    assert unread_of(world) == ()


def test_an_object_that_is_acknowledged_holds_nothing_and_joins_when_it_is_given(
    world: World, logs: S3Folder, hide: Hiding
) -> None:
    primaries = lines_of("queries", ("", "q1"))
    put(logs, "queries/bad.jsonl", primaries)
    put(logs, "clicks/a.jsonl", lines_of("clicks", ("c1", "q1")))
    give = hide(logs, "*bad.jsonl")
    world.join()
    plan_acknowledgement(world.state(), world.clock.now_us()).apply()
    world.forget()  # it belongs to no process
    assert unread_of(world) == ()
    assert losses_of(view_of(world), world.state()).unread_bytes == len(primaries)
    assert_counts(world.join(mode="complete").counts, unjoinable=1)
    give()
    world.clock.advance(MOST_PAUSE_US / MICROSECONDS)
    assert_counts(world.join(mode="complete").counts, joined=1, unjoinable=0)
    assert losses_of(view_of(world), world.state()).unread_bytes == 0


def test_an_object_that_is_refused_after_it_was_read_holds_up_its_own_events_alone(
    world: World, logs: S3Folder, hide: Hiding
) -> None:
    """Broken variant: each batch waits in which an event asks for it."""
    put(logs, "queries/bad.jsonl", lines_of("queries", ("", "q1")))
    put(logs, "queries/good.jsonl", lines_of("queries", ("", "q2")))
    put(logs, "clicks/a.jsonl", lines_of("clicks", ("c1", "q1")))
    assert_counts(world.join().counts, joined=1)
    give = hide(logs, "*bad.jsonl")
    objects._beginnings.clear()
    put(logs, "clicks/b.jsonl", lines_of("clicks", ("c2", "q1"), ("c3", "q2")))
    assert_counts(world.join(mode="complete").counts, joined=2, pending=1, unjoinable=0)
    (one,) = view_of(world).unread
    assert (one.path, one.size_bytes, unread_of(world)) == ("queries/bad.jsonl", 0, (one,))
    plan_acknowledgement(world.state(), world.clock.now_us()).apply()
    world.forget()
    assert unread_of(world) == ()
    assert_counts(world.join(mode="complete").counts, joined=2, pending=1, unjoinable=0)
    give()
    world.clock.advance(MOST_PAUSE_US / MICROSECONDS)
    assert_counts(world.join(mode="complete").counts, joined=3, pending=0)
    assert view_of(world).unread == ()


def test_seventeen_objects_that_are_refused_hold_up_no_other(
    world: World, logs: S3Folder, hide: Hiding
) -> None:
    """Broken variant: all of a datacenter's logs count as away."""
    for number in range(17):
        put(logs, f"queries/{number}-bad.jsonl", lines_of("queries", ("", f"q{number}")))
    put(logs, "queries/good.jsonl", lines_of("queries", ("", "good")))
    put(logs, "clicks/a.jsonl", lines_of("clicks", ("c1", "good")))
    hide(logs, "*-bad.jsonl")
    assert_counts(world.join().counts, joined=1)
    assert len(unread_of(world)) == 17
