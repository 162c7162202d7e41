"""A store tells of new objects: a real MinIO does, and other stores tell too little."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import pytest

from infra.servers.minio import CREDENTIALS, MinioServer
from photon.logs.announcements import Announcements
from photon.logs.on_s3 import listening as module
from photon.logs.on_s3.listening import Lateness, listening
from photon.pipeline.location import S3Folder
from photon.process.clock import SystemClock
from photon.storage.s3 import S3Store
from tests.support.programs import needed

pytestmark = pytest.mark.server

PATIENCE_SECONDS = 60
NAMES = ["a.log", "a b/100%+ü.log", "a%20b.log", "x=1/y&z#?.log"]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def until(holds: Callable[[], object]) -> None:
    """Wait until something is true: another process or thread makes it so, without a clock to inject."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def put(folder: S3Folder, name: str) -> None:
    def write(sink: BinaryIO) -> None:
        sink.write(b"{}\n")

    S3Store(folder).put(name, write)


def told_after(news: Announcements, put_all: Callable[[], None]) -> set[str]:
    """Put objects once somebody listens, and return the names that were told."""
    until(lambda: news.take() is not None)
    put_all()
    found: set[str] = set()
    until(lambda: found.update(news.take() or ()) or len(found) >= len(NAMES))
    return found


def test_each_new_object_below_the_folder_is_told_of_by_its_name(on_s3: S3Folder) -> None:
    with listening(on_s3) as news:

        def put_all() -> None:
            put(on_s3.parent / "other", "other.log")
            for name in NAMES:
                put(on_s3, name)

        assert told_after(news, put_all) == set(NAMES)


def test_a_notice_wakes_whoever_rests(on_s3: S3Folder) -> None:
    with listening(on_s3) as news:
        until(lambda: news.take() is not None)
        rests = threading.Thread(target=news.rest, args=(SystemClock(), 3_600.0), daemon=True)
        rests.start()
        put(on_s3, "a.log")
        rests.join(PATIENCE_SECONDS)
        assert not rests.is_alive()


def test_whoever_listens_listens_again_after_the_store_was_gone_and_ends_when_it_is_told_to(
    tmp_path: Path,
) -> None:
    needed("MinIO")
    with MinioServer(tmp_path, ["logs"]) as server:
        folder = S3Folder("logs", "east", server.url)
        with listening(folder) as news:
            until(lambda: news.take() is not None)
            server.kill()
            until(lambda: news.take() is None)
            server.start()
            assert told_after(news, lambda: [put(folder, name) for name in NAMES] and None) == set(NAMES)
        until(lambda: not any("news of" in thread.name for thread in threading.enumerate()))


def test_aws_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    with listening(S3Folder("logs", "east")) as news:
        assert not any("news of" in thread.name for thread in threading.enumerate())
        assert news.take() is None


# -- stores that tell too little

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def store(answer: Answer) -> Iterator[tuple[S3Folder, list[str]]]:
    """Run a store that gives listeners this answer; yield its folder, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            with suppress(OSError):  # the listener has gone
                answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield S3Folder("logs", "east", f"http://127.0.0.1:{server.server_address[1]}"), asked
    finally:
        server.shutdown()
        server.server_close()


def answers(status: int, kind: str, content: bytes) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


def is_silent(request: BaseHTTPRequestHandler) -> None:
    time.sleep(2)


def holds_back(request: BaseHTTPRequestHandler) -> None:
    """Answer like a MinIO whose answers can't be flushed: events gather for seconds, and come together."""
    request.send_response(200)
    request.send_header("Content-Type", module.STREAM)
    request.end_headers()
    now = datetime.now(UTC)
    for number in range(2 * module.JUDGED_EVENTS):
        given = now - timedelta(seconds=number % 4)
        event = {"eventTime": given.isoformat(), "s3": {"object": {"key": f"east/{number}.log"}}}
        request.wfile.write(json.dumps({"Records": [event]}).encode() + b"\n")
    time.sleep(2)


LISTING = b'<?xml version="1.0"?><ListBucketResult></ListBucketResult>'
REFUSAL = b"<Error><Code>AccessDenied</Code><Message>no, photon</Message></Error>"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answers(200, "application/xml", LISTING), "answers with application/xml"),
        (answers(403, "application/xml", REFUSAL), "AccessDenied"),
        (answers(501, "text/plain", b"not implemented"), "501"),
        (is_silent, "no sign of life"),
        (holds_back, "its events come late"),
        (answers(200, module.STREAM, b'{"Records": [{}]}\n'), "eventTime"),
    ],
)
def test_a_store_that_tells_too_little_is_told_of_once_and_then_listed(
    answer: Answer, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Broken variant: a store that answers with a listing is asked again and again, at full speed."""
    monkeypatch.setattr(module, "SIGN_OF_LIFE_SECONDS", 0.5)
    with caplog.at_level(logging.WARNING, module.__name__), store(answer) as (folder, asked):
        with listening(folder) as news:
            until(lambda: caplog.records)
            until(lambda: news.take() is None)
        assert [said in record.getMessage() for record in caplog.records] == [True]
    assert len(asked) == 1
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in caplog.text
    assert "no, photon" not in caplog.text


def test_a_store_that_is_busy_is_asked_again_soon_and_not_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A MinIO that has just started is busy. Broken variant: nobody listens for ten minutes."""
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    busy = answers(503, "application/xml", b"<Error><Code>XMinioServerNotInitialized</Code></Error>")
    with store(busy) as (folder, asked), listening(folder):
        until(lambda: len(asked) > 3)
    assert not caplog.records


def test_events_that_come_as_soon_as_others_are_not_late_however_clocks_differ() -> None:
    of_another_clock, lateness = 3_600.0, Lateness()
    took = [0.01, 0.3, 0.02, 0.4] * module.JUDGED_EVENTS
    assert not any(lateness.note(n, n + of_another_clock + each) for n, each in enumerate(took))


def test_a_few_late_events_are_no_reason_to_list() -> None:
    """A pause of the machine makes a few events late. Broken variant: the first one ends the listening."""
    lateness = Lateness()
    took = [0.01] * module.JUDGED_EVENTS + [5.0, 4.0, 3.0, 2.0, 1.0] + [0.01] * module.JUDGED_EVENTS
    assert not any(lateness.note(float(n), n + each) for n, each in enumerate(took))
