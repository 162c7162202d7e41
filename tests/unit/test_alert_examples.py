"""The functions of examples/alerts reach real servers, and raise where these refuse."""

from __future__ import annotations

import json
import socketserver
import threading
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from examples.alerts import mail, slack, webhook
from photon.health.alerts import Alert

ALERT = Alert("clicks", "check", "health east__works", "error", "nobody has run it", 0, "run-1")


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[int]:
    """Serve from a thread; the port."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def http_server(status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """Run a server that answers posts with a status; yield its URL, and the bodies that come."""
    came: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/", came


class Smtp(socketserver.StreamRequestHandler):
    """Speaks as much SMTP as it takes to receive a mail."""

    mails: list[str]

    def handle(self) -> None:
        self.answer("220 ready")
        while line := self.rfile.readline().decode().strip():
            if line.upper() == "DATA":
                self.answer("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.mails.append(b"".join(lines).decode())
            self.answer("221 bye" if line.upper() == "QUIT" else "250 ok")

    def answer(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


def test_a_webhook_gets_the_alert_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server() as (url, came):
        monkeypatch.setenv("ALERTS_URL", url)
        webhook.tell(ALERT)
    assert came == [ALERT.as_dict()]
    assert came[0]["title"] == "[ERROR] clicks: health east__works"


def test_slack_gets_a_message_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server() as (url, came):
        monkeypatch.setenv("SLACK_WEBHOOK_URL", url)
        slack.tell(ALERT)
    (message,) = came
    assert message["text"].endswith(f"{ALERT.title}*\nnobody has run it")


@pytest.mark.parametrize("tell", [webhook.tell, slack.tell])
def test_a_server_that_refuses_is_no_success(
    tell: Callable[[Alert], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_server(503) as (url, _):
        monkeypatch.setenv("ALERTS_URL", url)
        monkeypatch.setenv("SLACK_WEBHOOK_URL", url)
        with pytest.raises(urllib.error.HTTPError):
            tell(ALERT)


def test_a_mail_has_the_title_as_its_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(Smtp):
        mails: list[str] = []  # noqa: RUF012  # of this test alone

    with serving(socketserver.TCPServer(("127.0.0.1", 0), Handler)) as port:
        settings = {
            "MAIL_HOST": f"127.0.0.1:{port}",
            "MAIL_FROM": "photon@example.org",
            "MAIL_TO": "me@example.org",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        mail.tell(ALERT)
    (text,) = Handler.mails
    assert f"Subject: {ALERT.title}" in text
    assert "nobody has run it" in text
    assert "run-1" in text
