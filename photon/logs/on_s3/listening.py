"""Listen to what a MinIO tells of new objects, in a thread of its own.

Its stream has an event a line, and a space every half second in between. A store that tells nothing,
refuses, or holds its events back is told of once; then listing alone finds new objects, as it does on
AWS.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from xml.etree.ElementTree import ParseError

from minio import Minio
from minio.credentials.credentials import Credentials
from minio.credentials.providers import Provider
from minio.error import MinioException
from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.response import BaseHTTPResponse

from photon.logs.announcements import Announcements
from photon.pipeline.location import S3Folder
from photon.storage.s3 import endpoint_url_of, region_of
from photon.storage.s3_credentials import keys_now, refused
from photon.storage.store_errors import WRONG_KEYS, code_of

CONNECT_SECONDS = 5.0
SIGN_OF_LIFE_SECONDS = 10.0  # MinIO gives one every half second
FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 1.0, 60.0  # before it listens again to one that went
REFUSED_PAUSE_SECONDS = 600.0  # the same of one that does not tell, or too late
LATE_SECONDS = 0.5  # an event that comes so much later than another one was held back
JUDGED_EVENTS = 32  # as long as a third of the last ones are late, listing is faster
LATE_PART = 3
READ_BYTES = 2**16
STREAM = "text/event-stream"
BUSY = (500, 502, 503, 504)
SAID_CHARACTERS = 200
AS_OF_NEW_MINIO = ", as of MinIO since October 2025"

log = logging.getLogger(__name__)


class NotAnnounced(Exception):
    """The store does not tell of new objects as it should."""


class Lateness:
    """How late events come, by their own times, against the one that came soonest: clocks may differ."""

    def __init__(self) -> None:
        self._soonest_seconds: float | None = None
        self._late: deque[bool] = deque(maxlen=JUDGED_EVENTS)

    def note(self, given_seconds: float, came_seconds: float) -> bool:
        """Whether the store holds events back, as this one and those before it say."""
        took_seconds = came_seconds - given_seconds
        if self._soonest_seconds is None or took_seconds < self._soonest_seconds:
            self._soonest_seconds = took_seconds
        self._late.append(took_seconds - self._soonest_seconds > LATE_SECONDS)
        return len(self._late) == JUDGED_EVENTS and sum(self._late) > JUDGED_EVENTS // LATE_PART


@contextlib.contextmanager
def listening(folder: S3Folder) -> Iterator[Announcements]:
    """Listen to what is told of new objects below a folder, until the end; nothing waits for the store."""
    endpoint_url, ended = endpoint_url_of(folder), threading.Event()
    news = Announcements(may_come=endpoint_url is not None)
    if endpoint_url is not None:  # AWS tells nobody
        listener = _Listener(folder, endpoint_url, news, ended)
        threading.Thread(target=listener.run, name=f"news of {folder}", daemon=True).start()
    try:
        yield news
    finally:
        ended.set()


class _Listener:
    def __init__(
        self, folder: S3Folder, endpoint_url: str, news: Announcements, ended: threading.Event
    ) -> None:
        self._folder, self._news, self._ended = folder, news, ended
        self._endpoint_url = endpoint_url
        self._below = f"{folder.key}/" if folder.key else ""
        self._has_heard = False  # since it listens this time
        self._said = False

    def run(self) -> None:
        """Listen again and again, until the end."""
        pause_seconds = 0.0
        while not self._ended.wait(pause_seconds):
            self._has_heard = False
            try:
                self._listen()
            except ReadTimeoutError:
                pause_seconds = FIRST_PAUSE_SECONDS if self._has_heard else REFUSED_PAUSE_SECONDS
                if not self._has_heard:
                    self._say(f"no sign of life within {SIGN_OF_LIFE_SECONDS:.0f} s{AS_OF_NEW_MINIO}")
            except (MinioException, NotAnnounced, ValueError, KeyError, TypeError, ParseError) as error:
                if (code := code_of(error)) in WRONG_KEYS:  # the next ones may be others
                    refused(code)
                    pause_seconds = max(2 * min(pause_seconds, MOST_PAUSE_SECONDS / 2), FIRST_PAUSE_SECONDS)
                    continue
                pause_seconds = REFUSED_PAUSE_SECONDS
                # An answer of S3 may have the key's id in it, and one of another server may be a whole page.
                self._say(code or str(error)[:SAID_CHARACTERS])
            except (HTTPError, OSError):  # the object is gone, and listing says so
                pause_seconds = 0.0 if self._has_heard else min(pause_seconds, MOST_PAUSE_SECONDS / 2)
                pause_seconds = max(2 * pause_seconds, FIRST_PAUSE_SECONDS)
            finally:
                self._news.end()

    def _listen(self) -> None:
        """Tell of each object until the end. NotTold, and what the client raises."""
        url, lateness = urlsplit(self._endpoint_url), Lateness()
        client = Minio(
            url.netloc,
            secure=url.scheme == "https",
            region=region_of(self._folder),
            credentials=_KeysNow(),
            http_client=_Streams(self._on_sign_of_life),
        )
        told = client.listen_bucket_notification(
            self._folder.bucket, prefix=self._below, events=("s3:ObjectCreated:*",)
        )
        with told as events:
            for event in events:
                for record in event["Records"]:
                    if lateness.note(_given_seconds(record), time.time()):
                        raise NotAnnounced(f"its events come late{AS_OF_NEW_MINIO}")
                    self._tell(record)

    def _tell(self, record: Any) -> None:
        self._news.tell(record["s3"]["object"]["key"].removeprefix(self._below))

    def _on_sign_of_life(self) -> None:
        """ConnectionAbortedError once nobody wants to hear more."""
        if self._ended.is_set():
            raise ConnectionAbortedError("nobody listens any more")
        self._has_heard = True
        self._news.begin()

    def _say(self, why: str) -> None:
        if not self._said:
            self._said = True
            log.warning(
                "%s tells too little of new objects (%s): they are found by listing", self._folder, why
            )


def _given_seconds(record: Any) -> float:
    return datetime.fromisoformat(record["eventTime"]).timestamp()


class _KeysNow(Provider):
    """The keys that all of Photon has, as the client of MinIO wants them."""

    def retrieve(self) -> Credentials:
        """CredentialsMissing."""
        keys = keys_now()
        return Credentials(keys.access_key, keys.secret_key, keys.token)


class _Streams(PoolManager):
    """Connections whose answers are streams of lines, each given on when it comes.

    The client alone would read a byte at a time (8 ms of CPU an event), take the end of a stream for a pause,
    and ask a store that lists the bucket instead over and over.
    """

    def __init__(self, on_sign_of_life: Callable[[], None]) -> None:
        super().__init__(timeout=Timeout(connect=CONNECT_SECONDS, read=SIGN_OF_LIFE_SECONDS), retries=False)
        self._on_sign_of_life = on_sign_of_life

    def urlopen(self, method: str, url: str, **kw: Any) -> Any:  # type: ignore[override]  # as the client asks
        """A stream, or the answer that refuses it. NotTold if it is an answer to something else.

        ConnectionError while the store can't answer.
        """
        answer = super().urlopen(method, url, **kw)
        if answer.status in BUSY:
            answer.close()
            raise ConnectionError(f"the store answers {answer.status}")
        if answer.status != 200:
            return answer
        if (kind := answer.headers.get("content-type", "")) != STREAM:
            answer.close()
            raise NotAnnounced(f"it answers with {kind or 'nothing'}, and not with {STREAM}")
        return _Stream(answer, self._on_sign_of_life)


class _Stream:
    """Lines as they come: what the client asks of an answer."""

    def __init__(self, answer: BaseHTTPResponse, on_sign_of_life: Callable[[], None]) -> None:
        self.status, self.headers = answer.status, answer.headers
        self.close, self.release_conn = answer.close, answer.release_conn
        self._answer, self._on_sign_of_life = answer, on_sign_of_life
        self._read = b""

    @property
    def closed(self) -> bool:
        return self._answer.closed

    def readline(self) -> bytes:
        """The next line. ConnectionError at the end of the stream."""
        while b"\n" not in self._read:
            data = self._answer.read1(READ_BYTES)
            if not data:
                raise ConnectionResetError("the store has ended its stream")
            self._on_sign_of_life()
            self._read = (self._read + data).lstrip(b" ")
        line, _, self._read = self._read.partition(b"\n")
        return line
