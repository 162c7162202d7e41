"""Where credentials come from, and what is said of those that are missing or refused."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.credentials import Credentials

from photon.ledger.address import EndpointAddress
from photon.ledger.stores.copies import NoReply
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.credentials import Access, CredentialSource, access
from photon.registry.dynamodb.wire import WireClient
from photon.registry.interface import Claim, Won
from photon.registry.open import connection
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry
from tests.unit.registry_wire.servers import CREDENTIALS, Endpoint, RawServer, always, client_of, request_on

KEY_LINES = "aws_access_key_id = {0}\naws_secret_access_key = {0}-secret\n"


def users(asked: Sequence[tuple[dict[str, str], bytes]]) -> list[str]:
    """The access keys that requests were signed with."""
    return [sent["authorization"].split("Credential=")[1].split("/")[0] for sent, _ in asked]


def reply_of(client: WireClient) -> NoReply:
    (reply,) = DynamoAcceptor("table", lambda: client).read([ItemKey("p", "s")])
    assert isinstance(reply, NoReply)
    return reply


@pytest.mark.parametrize(
    ("file", "profile", "reason"),
    [
        ("", None, "Unable to locate credentials"),
        ("[default]\naws_access_key_id = a\n", None, "Partial credentials"),
        ("", "far", r"The config profile \(far\) could not be found"),
        ("not a file of profiles", None, "parse"),
    ],
)
def test_without_credentials_nothing_is_sent_and_the_reply_says_what_to_do(
    endpoint: Endpoint, tmp_path: Path, file: str, profile: str | None, reason: str
) -> None:
    (tmp_path / "credentials").write_text(file)
    reply = reply_of(WireClient(endpoint.url, access("eu-1", profile), 5, 1))
    assert reply.kind == "denied"
    assert re.search(f"no credentials for {endpoint.url}: .*{reason}.*mend", reply.reason)
    assert endpoint.asked == []


def test_credentials_that_are_put_there_later_are_found(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("photon.registry.dynamodb.credentials._PAUSE_SECONDS", 0)
    client = WireClient(endpoint.url, access("eu-1"), 5, 1)
    assert reply_of(client).kind == "denied"
    (tmp_path / "credentials").write_text("[default]\n" + KEY_LINES.format("one"))
    assert client.scan(TableName="t") == {}
    endpoint.answer = (400, b'{"__type": "x#ExpiredTokenException"}', {})
    (tmp_path / "credentials").write_text("[default]\n" + KEY_LINES.format("other"))
    assert reply_of(client).kind == "denied"
    endpoint.answer = (200, b"{}", {})
    client.scan(TableName="t")
    assert users(endpoint.asked) == ["one", "one", "other"]


def test_each_endpoint_has_credentials_of_its_own_profile(endpoint: Endpoint, tmp_path: Path) -> None:
    profiles = "".join(f"[{name}]\n" + KEY_LINES.format(name) for name in ("default", "near", "far"))
    (tmp_path / "credentials").write_text(profiles)
    for profile in ("near", "far", None):
        address = EndpointAddress(endpoint.url, "eu-1", profile=profile)
        connection(address, timedelta(seconds=5), 1)().scan(TableName="t")
    assert users(endpoint.asked) == ["near", "far", "default"]


def test_a_role_is_assumed_by_sts_and_again_before_its_credentials_expire(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text("[near]\n" + KEY_LINES.format("near"))
    role, asked = "arn:aws:iam::123456789012:role/photon", list[bytes]()
    given = iter([("first", 30), ("second", 3600)])

    def sts(connection: socket.socket) -> None:
        asked.append(request_on(connection))
        key, seconds = next(given)
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = (
            "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult>"
            f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
            f"<SessionToken>token-{key}</SessionToken><Expiration>{until}</Expiration></Credentials>"
            "</AssumeRoleResult></AssumeRoleResponse>"
        ).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    monkeypatch.setattr("photon.registry.dynamodb.credentials._PAUSE_SECONDS", 0)
    with RawServer(sts) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        client = WireClient(endpoint.url, access("eu-1", "near", role), 5, 1)
        for _ in range(3):
            client.scan(TableName="t")
    assert users(endpoint.asked) == ["first", "second", "second"]
    assert [headers["x-amz-security-token"] for headers, _ in endpoint.asked][1:] == ["token-second"] * 2
    assert len(asked) == 2
    for request in asked:
        assert b"Credential=near/" in request
        assert b"RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fphoton" in request


def test_a_role_that_may_not_be_assumed_is_a_denial(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text("[default]\n" + KEY_LINES.format("me"))
    refusal = (
        b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
    )
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(refusal) + refusal
    with RawServer(always(answer)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        granted = access("eu-1", role="arn:aws:iam::123456789012:role/photon")
        reply = reply_of(WireClient(endpoint.url, granted, 5, 1))
    assert reply.kind == "denied"
    assert "not you" in reply.reason
    assert endpoint.asked == []


def test_a_search_for_credentials_is_done_once_for_all_who_wait_and_holds_nobody_up(
    endpoint: Endpoint,
) -> None:
    searches: list[float] = []
    may_end = threading.Event()

    def find() -> Credentials:
        searches.append(time.monotonic())
        may_end.wait(10)
        return CREDENTIALS

    source = CredentialSource(find)
    client = WireClient(endpoint.url, Access("eu-1", source, access("eu-1").authorities), 0.3, 4)
    began = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda _: reply_of(client), range(8)))
    assert time.monotonic() - began < 2
    assert all("in time" in reply.reason for reply in replies)
    may_end.set()
    source.current(time.monotonic() + 5)
    assert client.scan(TableName="t") == {}
    assert len(searches) == 1


def test_lost_rights_are_said_once_with_what_to_do_and_never_raised(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = (400, b'{"__type": "x#AccessDeniedException", "message": "not you"}', {})
    clock = ManualClock()
    acceptor = DynamoAcceptor("table", lambda: client_of(endpoint.url))
    stores = [FaultyStore(clock) for _ in range(2)]
    memory_registry(*stores, FaultyStore(clock), clock=clock).close()
    registry = QuorumRegistry([*stores, acceptor], Registry(), clock)
    for name in "abc":
        assert registry.commit([Claim(EventKey(name), "east:e:1#p:1:0")]) == [Won()]
    registry.close()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        "endpoint 3 of the registry does not let us in: AccessDeniedException: not you; mend"
    )
