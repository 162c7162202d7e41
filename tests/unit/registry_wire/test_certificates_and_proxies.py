"""Whom a client trusts, and through whom it speaks."""

from __future__ import annotations

import base64
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import SSLError
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from photon.registry.dynamodb.credentials import Access, CredentialSource, access
from photon.registry.dynamodb.keep_alive import ProxyUnusable
from photon.registry.dynamodb.wire import WireClient
from tests.unit.registry_wire.servers import CREDENTIALS, RawServer, always, client_of, request_on, says

# -- certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority (`ca.pem`) and a server's certificate with its key (`server.pem`)."""
    folder = tmp_path_factory.mktemp("certificates")
    now, usual = datetime.now(UTC), SHA256()

    def certificate(name: str, key: Any, by: str, signed_with: Any, *extensions: Any) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by)]))
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(signed_with, usual)

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    is_ca, is_none = (x509.BasicConstraints(ca, path_length=None) for ca in (True, False))
    names = x509.SubjectAlternativeName(
        [x509.DNSName("store.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    ca = certificate("authority", ca_key, "authority", ca_key, is_ca)
    own = certificate("other.test", key, "authority", ca_key, is_none, names)
    pem, secret = Encoding.PEM, (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(own.public_bytes(pem) + key.private_bytes(*secret))
    return folder


@pytest.fixture
def tls(certificates: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem")
    return context


def test_an_authority_that_is_named_is_trusted_and_no_other(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with RawServer(always(), tls) as server:
        url = f"https://127.0.0.1:{server.port}"
        with pytest.raises(SSLError, match="certificate verify failed"):
            client_of(url).scan(TableName="t")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "nothing.pem"))
        with pytest.raises(SSLError, match=r"nothing\.pem can't be read"):
            client_of(url).scan(TableName="t")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
        assert client_of(url).scan(TableName="t") == {}
        monkeypatch.delenv("AWS_CA_BUNDLE")
        (tmp_path / "config").write_text(f"[profile far]\nca_bundle = {certificates / 'ca.pem'}\n")
        source = CredentialSource(lambda: CREDENTIALS)
        of_profile = Access("eu-1", source, access("eu-1", "far").authorities)
        assert WireClient(url, of_profile, 5, 1).scan(TableName="t") == {}


def test_a_secret_connection_is_kept_like_any_other(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    with RawServer(always(), tls) as server:
        client = client_of(f"https://127.0.0.1:{server.port}")
        assert [client.scan(TableName="t") for _ in range(3)] == [{}] * 3
    assert server.connections == 1


@pytest.mark.parametrize("name", ["localhost", "other.test"])
def test_a_certificate_of_another_name_is_refused(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    with RawServer(always(), tls) as server:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(SSLError, match="Hostname mismatch"):
            client_of(f"https://{name}:{server.port}").scan(TableName="t")
        assert client_of(f"https://store.test:{server.port}").scan(TableName="t") == {}


# -- proxies


def tunnel_to(server: RawServer, asked: list[bytes]) -> Callable[[socket.socket], None]:
    """A proxy that knows one place only."""

    def talk(connection: socket.socket) -> None:
        asked.append(request_on(connection))
        with socket.create_connection(("127.0.0.1", server.port)) as there:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n")
            back = threading.Thread(target=pump, args=(there, connection), daemon=True)
            back.start()
            pump(connection, there)

    return talk


def pump(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            to.sendall(part)
        to.shutdown(socket.SHUT_WR)


def test_an_https_endpoint_is_reached_by_a_tunnel_through_the_proxy(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    with RawServer(always(), tls) as server, RawServer(tunnel_to(server, asked)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:p%40ss@"))
        client = client_of("https://store.test")
        assert [client.scan(TableName="t") for _ in range(3)] == [{}] * 3
    (request,) = asked
    assert request.startswith(b"CONNECT store.test:443 HTTP/1.1\r\nHost: store.test:443\r\n")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss") in request


def test_an_http_endpoint_is_asked_for_by_its_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    with RawServer(always(asked=asked)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:pass@"))
        assert client_of("http://store.test:8000/here").scan(TableName="t") == {}
    (request,) = asked
    assert request.startswith(b"POST http://store.test:8000/here HTTP/1.1\r\nHost: store.test:8000\r\n")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:pass") in request


def test_no_proxy_is_asked_for_hosts_that_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with RawServer(always()) as server:
        assert client_of(server.url).scan(TableName="t") == {}, "this machine's own addresses"
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setenv("NO_PROXY", ".test,other.example")
        assert client_of("http://store.test").scan(TableName="t") == {}


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", b"", b"no HTTP\r\n\r\n"]
)
def test_a_proxy_that_refuses_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with RawServer(says(answer)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:secret@"))
        with pytest.raises(ProxyUnusable, match=f"127.0.0.1:{proxy.port}") as raised:
            client_of("https://store.test").scan(TableName="t")
    assert "secret" not in str(raised.value)


def test_a_proxy_that_is_itself_spoken_to_by_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "https://proxy.test")
    with pytest.raises(ProxyUnusable, match="its URL does not begin with http://"):
        client_of("https://store.test").scan(TableName="t")
