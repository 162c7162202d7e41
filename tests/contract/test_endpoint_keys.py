"""An endpoint of the registry is asked with the keys of the moment, wherever boto3 finds them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from photon.registry.address import EndpointAddress
from photon.registry.stores import dynamo_connection, dynamo_keys
from photon.registry.stores.copies import Done, NoReply
from photon.registry.stores.dynamo import DynamoStore
from photon.registry.stores.dynamo_endpoint import DynamoEndpoint
from photon.storage import s3_credentials
from photon.storage.s3_credentials import forget_keys
from tests.support.key_services import Keys, KeyServices

FIRST, NEXT = Keys("first", "secret", "token"), Keys("next", "secret", "token")
ROLE = "arn:aws:iam::123456789012:role/registry"


class Endpoint:
    """A server with the DynamoDB API that takes the keys of one id, and notes which were shown."""

    def __init__(self) -> None:
        self.takes, self.refusal, self.shown = FIRST.access_key, "UnrecognizedClientException", list[str]()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                key = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
                endpoint.shown.append(key)
                is_taken = key == endpoint.takes
                answer = {"ConsumedCapacity": {}} if is_taken else {"__type": endpoint.refusal}
                self.send_response(200 if is_taken else 400)
                data = json.dumps(answer).encode()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def store(self, profile: str | None = None, role: str | None = None) -> DynamoStore:
        url = f"http://127.0.0.1:{self.server.server_port}"
        address = EndpointAddress(url, "eu-central-1", profile, role)
        return DynamoEndpoint(address, timedelta(seconds=10), 1).store("table")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServices]:
    """A file gives keys, and a service those of a role; a refusal is heeded however soon it comes."""
    found = KeyServices(tmp_path, FIRST)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in found.environment("file").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", found.url)
    monkeypatch.setattr(s3_credentials, "FIRST_PAUSE_SECONDS", 0.0)
    forget_all()
    yield found
    found.close()
    forget_all()


def forget_all() -> None:
    forget_keys()
    dynamo_keys._keys_of.cache_clear()
    dynamo_connection._session.cache_clear()


@pytest.mark.parametrize(
    ("profile", "role"), [(None, None), ("other", None), (None, ROLE)], ids=["process", "profile", "role"]
)
def test_rotated_keys_are_taken_up_after_one_refusal(
    services: KeyServices, endpoint: Endpoint, profile: str | None, role: str | None
) -> None:
    """Broken variant: a session of boto3 keeps the keys that it found, and never looks into a file again."""
    store = endpoint.store(profile, role)
    assert store.touch() == Done()
    services.give(NEXT)
    endpoint.takes = NEXT.access_key
    refused = store.touch()
    assert isinstance(refused, NoReply)
    assert refused.kind == "denied"
    assert store.touch() == Done()
    assert endpoint.shown == ["first", "first", "next"]


def test_a_right_that_lacks_makes_no_request_wait_for_other_keys(
    services: KeyServices, endpoint: Endpoint
) -> None:
    store, endpoint.takes, endpoint.refusal = endpoint.store(), "", "AccessDeniedException"
    assert [getattr(store.touch(), "kind", "") for _ in range(3)] == ["denied"] * 3


def test_an_endpoint_without_keys_says_how_to_set_them(
    monkeypatch: pytest.MonkeyPatch, services: KeyServices, endpoint: Endpoint
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(services.folder / "none"))
    reply = endpoint.store().touch()
    assert isinstance(reply, NoReply)
    assert reply.kind == "denied"
    assert "there are no credentials; set them as for boto3" in reply.reason
    assert endpoint.shown == []
