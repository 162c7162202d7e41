"""Connections that send nothing, or slowly, or take nothing, keep nobody else from the live page."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from photon.page import connections, guard
from photon.page.access import Access
from photon.page.connections import MOST_CONNECTIONS, MOST_OF_ADDRESS
from photon.pipeline.file import Pipeline
from tests.support.manual_clock import ManualClock
from tests.support.served_page import Browser, served

TOKEN = "a token of twenty letters"
BEARER = f"Bearer {TOKEN}"
ROOT = "/api/records?hours=1"  # asks no registry
HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: 127"
FILE = b"GET /vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE_SECONDS = 30.0
MANY = 300


@pytest.fixture
def browser(pipeline: Pipeline) -> Iterator[Browser]:
    """The page behind a token; the rates of its clients are as at the start."""
    with served(pipeline, Access(token=TOKEN), ManualClock()) as found:
        yield found


def connected(browser: Browser, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
    """A connection from an address, on which something was sent."""
    found = socket.create_connection(("127.0.0.1", browser.port), PATIENCE_SECONDS, (address, 0))
    found.sendall(sent)
    return found


@contextmanager
def many(browser: Browser, sent: bytes, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    with ExitStack() as all_of_them:
        yield [all_of_them.enter_context(connected(browser, sent, address)) for _ in range(MANY)]


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it, after whatever it sent. TimeoutError: it stays open."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD], ids=["silent", "half a head"])
def test_hundreds_that_ask_nothing_keep_nobody_out(
    browser: Browser, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 10 * PATIENCE_SECONDS)  # none goes by itself
    with many(browser, sent):
        assert browser.ask(ROOT, Authorization=BEARER).status == 200
        assert browser.open_connections <= MOST_OF_ADDRESS


def test_one_address_takes_no_places_of_others(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 10 * PATIENCE_SECONDS)
    with connected(browser, HALF_A_HEAD) as first, many(browser, b"", "127.0.0.2"):
        assert browser.ask(ROOT, Authorization=BEARER).status == 200  # so all before it are known
        first.sendall(b".0.0.1\r\n\r\n")
        assert first.recv(1_024).startswith(b"HTTP/1.1 200")


def test_all_addresses_together_have_so_many_places(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 10 * PATIENCE_SECONDS)
    monkeypatch.setattr(connections, "MOST_OF_ADDRESS", MANY)
    with many(browser, b""):
        assert browser.ask(ROOT, Authorization=BEARER).status == 200
        assert browser.open_connections <= MOST_CONNECTIONS


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD], ids=["silent", "half a head"])
def test_a_head_that_does_not_come_ends_its_connection(
    browser: Browser, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    with connected(browser, sent) as connection:
        assert is_closed(connection)


@pytest.mark.parametrize("before", [b"", FILE], ids=["first", "second"])
def test_a_head_that_comes_byte_by_byte_ends_its_connection(
    browser: Browser, before: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    with connected(browser, before + HALF_A_HEAD) as connection:
        send_on = partial(connection.sendall, b"7")
        with pytest.raises(ConnectionError):
            repeat(send_on)


def repeat(send: Callable[[], None]) -> None:
    while True:
        send()
        time.sleep(0.001)  # so each byte comes in a packet of its own


def test_a_client_that_takes_nothing_is_let_go(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.05)
    with socket.socket() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        greedy.settimeout(PATIENCE_SECONDS)
        greedy.connect(("127.0.0.1", browser.port))
        greedy.sendall(FILE * 100)
        assert greedy.recv(1_024)  # so the server has it
        while browser.open_connections:
            time.sleep(0.01)  # the server's thread has no clock to inject


def test_slow_logins_keep_out_nobody_who_may_look(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_AT_ONCE", 1)
    head = b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    with connected(browser, head) as slow:
        assert slow.recv(1_024).startswith(b"HTTP/1.1 100")  # its body is waited for
        assert browser.log_in(TOKEN).status == 503
        assert browser.ask(ROOT, Authorization=BEARER).status == 200
        assert browser.ask("/", Authorization=BEARER).status == 200
