"""What a client of the DynamoDB API sends, and how answers and directories are read."""

from __future__ import annotations

import json
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError

from photon.ledger.address import EndpointAddress
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.copies import NoReply
from photon.pipeline.file import Pipeline
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.wire import UNREADABLE, WireClient
from photon.registry.operations.directory import DIRECTORY, Directory, EndpointSilent
from photon.registry.operations.init import ask_endpoint, classify_endpoints
from photon.testing.manual_clock import ManualClock
from tests.unit.registry_wire.servers import STATEMENTS, Endpoint, client_of


def test_a_request_is_what_boto3_would_have_sent(endpoint: Endpoint, client: WireClient) -> None:
    endpoint.answer = (200, b'{"Responses": []}', {})
    ours = client.batch_execute_statement(Statements=STATEMENTS)
    session = boto3.session.Session("key", "secret", "session", "eu-1")
    config = Config(retries={"total_max_attempts": 1})
    boto = session.client("dynamodb", endpoint_url=endpoint.url, config=config)
    theirs = boto.batch_execute_statement(Statements=STATEMENTS)
    boto.close()
    (our_headers, our_body), (their_headers, their_body) = endpoint.asked
    assert json.loads(our_body) == json.loads(their_body)
    assert ours["Responses"] == theirs["Responses"]
    for name in ("content-type", "x-amz-target", "x-amz-security-token"):
        assert our_headers[name] == their_headers[name]
    scope = our_headers["authorization"].partition("SignedHeaders")[0]
    assert scope == their_headers["authorization"].partition("SignedHeaders")[0]


def test_an_error_has_its_plain_name_and_what_came_with_it(endpoint: Endpoint, client: WireClient) -> None:
    reasons = [{"Code": "None"}, {"Code": "DuplicateItem"}]
    body = {
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "cancelled",
        "CancellationReasons": reasons,
    }
    endpoint.answer = (400, json.dumps(body).encode(), {})
    with pytest.raises(ClientError) as raised:
        client.execute_transaction(TransactStatements=STATEMENTS)
    assert raised.value.response["Error"] == {"Code": "TransactionCanceledException", "Message": "cancelled"}
    assert raised.value.response["CancellationReasons"] == reasons


@pytest.mark.parametrize("content", [b"<html>a proxy</html>", b"[]", b'"text"', b""])
def test_what_is_no_answer_of_the_api_is_an_error(
    endpoint: Endpoint, client: WireClient, content: bytes
) -> None:
    endpoint.answer = (200, content, {})
    with pytest.raises(ClientError, match=UNREADABLE):
        client.scan(TableName="table")


@pytest.mark.parametrize(
    "content",
    [b"<html>a proxy</html>", b"[]", b'"text"', b"", b'{"Item": []}', b'{"Item": {"t": 5}}', b'{"Item": {}}'],
)
def test_one_that_is_no_store_of_a_registry_is_an_endpoint_that_does_not_answer(
    endpoint: Endpoint, content: bytes
) -> None:
    endpoint.answer = (200, content, {})
    address = EndpointAddress(endpoint.url)
    assert isinstance(ask_endpoint("clicks", address), NoReply)
    with pytest.raises(EndpointSilent, match=f"^{endpoint.url} does not answer") as raised:
        Directory(address, ManualClock()).create("table")
    assert endpoint.url not in raised.value.reply.reason, "it is said once"


DENIAL = b'{"__type": "x#AccessDeniedException", "message": "not you"}'


def test_who_may_not_read_a_directory_hears_what_to_mend(endpoint: Endpoint) -> None:
    endpoint.answer = (400, DENIAL, {})
    address = EndpointAddress(endpoint.url)
    remedy = "does not let us in (AccessDeniedException: not you; mend this endpoint's credentials or rights"
    for call in (lambda: Directory(address, ManualClock()).create("table"), lambda: found(address)):
        with pytest.raises(RegistryUnavailable, match=f"{endpoint.url} {re.escape(remedy)}"):
            call()


def test_who_has_no_credentials_for_a_directory_hears_what_to_mend(endpoint: Endpoint) -> None:
    address = EndpointAddress(endpoint.url, profile="nobody")
    with pytest.raises(EndpointSilent, match=f"{endpoint.url} does not let us in .no credentials.*mend"):
        Directory(address, ManualClock()).create("table")
    assert endpoint.asked == []


def found(address: EndpointAddress) -> object:
    pipeline = Pipeline.model_construct(name="clicks", file=Path("clicks.yaml"))
    return classify_endpoints(pipeline, [address], [ask_endpoint("clicks", address)])


def test_the_tables_of_a_pipeline_are_on_all_pages_and_not_those_of_others(endpoint: Endpoint) -> None:
    mine, more = ["photon-clicks-" + c * 16 for c in "0a"], "photon-clicks-more-" + "0" * 16
    pages = iter(
        [
            {"TableNames": [mine[0], more], "LastEvaluatedTableName": more},
            {"TableNames": [mine[1], DIRECTORY]},
        ]
    )
    endpoint.on_request = lambda: setattr(endpoint, "answer", (200, json.dumps(next(pages)).encode(), {}))
    assert Directory(EndpointAddress(endpoint.url), ManualClock()).tables_of("clicks") == mine
    assert [json.loads(body) for _, body in endpoint.asked] == [{}, {"ExclusiveStartTableName": more}]


@pytest.mark.parametrize("checksum", ["", "none"])
def test_a_checksum_that_is_none_leaves_the_answer_unread(
    endpoint: Endpoint, client: WireClient, checksum: str
) -> None:
    endpoint.answer = (200, b'{"Responses": []}', {"x-amz-crc32": checksum})
    (reply,) = DynamoAcceptor("table", lambda: client).read([ItemKey("p", "s")])
    assert isinstance(reply, NoReply)


def test_an_answer_that_was_damaged_on_the_way_is_an_error(endpoint: Endpoint, client: WireClient) -> None:
    content = b'{"Responses": []}'
    endpoint.answer = (200, content, {"x-amz-crc32": str(zlib.crc32(content))})
    assert client.batch_execute_statement(Statements=STATEMENTS) == {"Responses": []}
    endpoint.answer = (200, content, {"x-amz-crc32": str(zlib.crc32(content) ^ 1)})
    with pytest.raises(ClientError, match=UNREADABLE):
        client.batch_execute_statement(Statements=STATEMENTS)


@pytest.mark.parametrize("token", ["session", None])
@pytest.mark.parametrize("path", ["", "/a store/here"])
def test_a_signature_is_the_one_that_botocore_makes(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, token: str | None, path: str
) -> None:
    credentials = Credentials("key", "secret", token)
    url = endpoint.url + path.replace(" ", "%20")
    client = client_of(url, credentials=credentials)
    for _ in range(2):
        client.batch_execute_statement(Statements=STATEMENTS)
    for headers, body in endpoint.asked:
        at = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda at=at: at)
        signed = ("content-type", "x-amz-target")
        request = AWSRequest("POST", url, {name: headers[name] for name in signed}, body)
        SigV4Auth(credentials.get_frozen_credentials(), "dynamodb", "eu-1").add_auth(request)
        assert headers["authorization"] == request.headers["Authorization"]


def test_an_endpoint_that_is_gone_is_no_error_of_its_own(endpoint: Endpoint) -> None:
    endpoint.stop()
    with pytest.raises(BotoCoreError) as raised:
        client_of(endpoint.url).query(TableName="table")
    assert not isinstance(raised.value, ClientError)
    endpoint.stop = lambda: None  # type: ignore[method-assign]
