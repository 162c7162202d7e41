"""Who may look at the live page, how much, and what browsers are told not to do."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from photon.page import guard
from photon.page.access import Access, token_for
from photon.page.guard import BURST, MOST_CLIENTS, PER_SECOND, Rates
from photon.page.refusals import MOST_ANSWER_BYTES, as_json
from photon.page.serving import listen_at, url_of
from photon.pipeline.file import Pipeline
from photon.process.errors import WrongUsage
from tests.support.manual_clock import ManualClock
from tests.support.served_page import Answer, served

TOKEN = "a token of twenty letters"
ROOT = "/api/records?hours=1"  # asks no registry


def session_of(answer: Answer) -> str:
    """The cookie that an answer sets, as a browser sends it back."""
    return answer.headers["set-cookie"].partition(";")[0]


# -- tokens


def test_beyond_this_machine_there_is_always_a_token() -> None:
    for address in ("127.0.0.1", "127.1.2.3", "::1"):
        assert token_for(address, None) == (None, False)
    for address in ("0.0.0.0", "::", "192.0.2.7", "fe80::1%eth0"):
        token, is_made = token_for(address, "")
        assert token is not None
        assert len(token) >= 32
        assert is_made
    assert token_for("0.0.0.0", None) != token_for("0.0.0.0", None)


def test_a_given_token_counts_on_this_machine_too() -> None:
    assert token_for("127.0.0.1", TOKEN) == (TOKEN, False)


def test_a_short_token_is_refused_and_not_repeated() -> None:
    with pytest.raises(WrongUsage, match="PHOTON_UI_TOKEN has 5 characters; expected at least 16") as refused:
        token_for("0.0.0.0", "guess")
    assert "guess" not in str(refused.value)


def test_without_the_token_nothing_of_the_pipeline_is_told(pipeline: Pipeline) -> None:
    with served(pipeline, Access(token=TOKEN)) as browser:
        for path in ("/api/now", "/api/history", "/api/records", "/api/event?id=c1", "/api/nothing"):
            answer = browser.ask(path)
            assert answer.status == 401, path
            assert answer.json["what_to_do"] == "give the token that photon ui was started with"
        for wrong in ("Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN):
            assert browser.ask(ROOT, Authorization=wrong).status == 401
        assert browser.ask(ROOT, Cookie=f"photon-ui={TOKEN}").status == 401
        assert browser.ask("/login.html").status == 200


def test_the_token_lets_in_as_a_header_or_by_the_cookie_that_it_is_given_for(pipeline: Pipeline) -> None:
    with served(pipeline, Access(token=TOKEN)) as browser:
        assert browser.ask(ROOT, Authorization=f"Bearer {TOKEN}").status == 200
        assert browser.log_in("guess").status == 401
        answer = browser.log_in(TOKEN)
        assert answer.status == 204
        assert browser.ask(ROOT, Cookie=session_of(answer)).status == 200
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie


def test_a_cookie_that_came_through_a_proxy_with_tls_is_sent_by_tls_alone(pipeline: Pipeline) -> None:
    with served(pipeline, Access(token=TOKEN)) as browser:
        assert "Secure" in browser.log_in(TOKEN, X_Forwarded_Proto="https").headers["set-cookie"]
        assert "Secure" not in browser.log_in(TOKEN).headers["set-cookie"]


def test_a_session_of_another_token_is_over(pipeline: Pipeline) -> None:
    with served(pipeline, Access(token=TOKEN)) as browser:
        cookie = session_of(browser.log_in(TOKEN))
    with served(pipeline, Access(token="another one of many letters")) as browser:
        assert browser.ask(ROOT, Cookie=cookie).status == 401


OTHER_FORMS = (b"", b"null", b"[]", b"{}", b'{"token": 7}', b'{"token": null}', b"\xff{")


@pytest.mark.parametrize("body", [*OTHER_FORMS, b'{"token": "\\ud800"}', b"[" * 4_000])
def test_a_login_of_another_form_is_refused(pipeline: Pipeline, body: bytes) -> None:
    with served(pipeline, Access(token=TOKEN)) as browser:
        assert browser.ask("/api/login", "POST", body).status == 401


# -- names and other pages


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:4280", "localhost:99", "[::1]:4280", "192.0.2.7"])
def test_an_address_and_localhost_are_known(host: str) -> None:
    assert Access().knows(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:4280", "["]
)
def test_another_name_is_refused_as_it_may_have_been_bound_to_this_machine(
    host: str, pipeline: Pipeline
) -> None:
    assert not Access().knows(host)
    with served(pipeline) as browser:
        for path in ("/", "/api/now"):
            assert browser.ask(path, Host=host).status == 400


def test_a_name_that_was_given_is_known() -> None:
    access = Access(frozenset({"photon.example"}))
    assert access.knows("photon.example")
    assert access.knows("Photon.Example:443")


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
)
def test_no_other_page_asks_for_anything(headers: dict[str, str], pipeline: Pipeline) -> None:
    with served(pipeline, Access(token=TOKEN)) as browser:
        assert browser.ask(ROOT, Authorization=f"Bearer {TOKEN}", **headers).status == 403
        assert browser.log_in(TOKEN, **headers).status == 403


def test_the_page_itself_asks(pipeline: Pipeline) -> None:
    with served(pipeline, Access(frozenset({"photon.example"}))) as browser:
        own = f"127.0.0.1:{browser.port}"
        assert browser.ask(ROOT, Origin=f"http://{own}", Sec_Fetch_Site="same-origin").status == 200
        # A proxy may give a name of its own in the Host header.
        assert browser.ask(ROOT, Origin="https://photon.example").status == 200


@pytest.mark.parametrize("path", ["/", "/api/records", "/api/login", "/nothing", "/js/ask.js"])
def test_every_answer_tells_browsers_what_not_to_do(path: str, pipeline: Pipeline) -> None:
    with served(pipeline) as browser:
        headers = browser.ask(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_a_refusal_has_these_headers_too(pipeline: Pipeline) -> None:
    with served(pipeline, Access(token=TOKEN)) as browser:
        assert "frame-ancestors 'none'" in browser.ask("/api/now").headers["content-security-policy"]


# -- limits


def test_a_client_that_asks_too_often_is_told_so_and_may_go_on_later() -> None:
    clock = ManualClock()
    rates = Rates(clock)
    assert [rates.take("a", 1) for _ in range(int(BURST) + 3)].count(True) == BURST
    assert rates.take("b", 1)
    clock.advance(1)
    assert [rates.take("a", 1) for _ in range(100)].count(True) == PER_SECOND


def test_so_many_clients_are_known_and_no_more() -> None:
    rates = Rates(ManualClock())
    for number in range(3 * MOST_CLIENTS):
        rates.take(str(number), 1)
    assert len(rates._left) == MOST_CLIENTS


def test_guesses_of_a_token_come_to_an_end_soon(pipeline: Pipeline) -> None:
    with served(pipeline, Access(token=TOKEN), ManualClock()) as browser:
        found = [browser.log_in(f"guess {number}").status for number in range(15)]
    assert found.count(401) == 10
    assert found[-1] == 429


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/api/event?id={'x' * 4_097}", 400),
        ("/api/event", 400),
        ("/api/event?id=", 400),
        (f"/api/now?{'x' * 20_000}", 400),
        ("/api/records?hours=7", 400),
        (f"/api/records?hours={'9' * 10_000}", 400),
        ("/api/history?from_us=1&to_us=1", 400),
        (f"/api/history?from_us=0&to_us={10**19}", 400),
        ("/api/history?from_us=-5&to_us=5", 400),
        ("/api/history?from_us=nan", 400),
        ("/api/nothing", 404),
        ("/../../pipeline.yaml", 404),
        ("/%2e%2e/%2e%2e/app.py", 404),
        ("/..%2fapp.py", 404),
    ],
)
def test_a_request_that_can_not_be_used_is_refused_with_a_reason(
    path: str, status: int, pipeline: Pipeline
) -> None:
    with served(pipeline) as browser:
        answer = browser.ask(path)
    assert answer.status == status
    assert answer.json["error"]
    assert len(answer.body) < 1_000


def test_a_body_is_short_or_refused(pipeline: Pipeline) -> None:
    with served(pipeline) as browser:
        assert browser.ask("/api/login", "POST", b"x" * 5_000).status == 400
        assert browser.ask("/api/login", "POST", b"", Content_Length="-1").status == 400
        chunked = browser.ask("/api/login", "POST", b"0\r\n\r\n", Transfer_Encoding="chunked")
        assert chunked.status == 400


def test_so_many_are_answered_at_once_and_others_are_told_to_wait(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_AT_ONCE", 0)
    with served(pipeline) as browser:
        assert browser.ask(ROOT).status == 503


def test_an_answer_that_is_too_large_is_not_sent() -> None:
    answer = as_json(["x" * MOST_ANSWER_BYTES])
    assert answer.status_code == 503
    assert b"ask for less" in bytes(answer.body)


def test_only_a_login_is_posted(pipeline: Pipeline) -> None:
    with served(pipeline) as browser:
        for path in ("/api/now", "/", "/index.html"):
            assert browser.ask(path, "POST").status == 405
        assert browser.ask("/api/login").status in (404, 405)


# -- what is sent


def test_text_of_logs_is_json_and_never_markup(pipeline: Pipeline) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    with served(pipeline) as browser:
        answer = browser.ask(f"/api/records?hours={hostile.replace(' ', '%20')}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert hostile[:10] in json.loads(answer.body)["error"]


def test_no_file_outside_of_the_page_is_sent(pipeline: Pipeline, pipeline_file: Path) -> None:
    with served(pipeline) as browser:
        for path in (f"//{pipeline_file}", f"/{pipeline_file}", "/js/../../app.py"):
            assert browser.ask(path).status == 404


# -- where it listens


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(WrongUsage) as refused:
            listen_at("127.0.0.1", port)
    assert str(refused.value) == (
        f"127.0.0.1:{port} can't be listened at: Address already in use; somebody serves there already; "
        f"choose another port, as in --port {port + 1}"
    )


def test_a_host_that_is_none_of_this_machine_is_told() -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(WrongUsage, match=f"{host}:4280 can't be listened at: .*--host"):
            listen_at(host, 4280)


def test_an_address_of_six_is_written_in_brackets() -> None:
    assert url_of("::1", 4280) == "http://[::1]:4280/"
