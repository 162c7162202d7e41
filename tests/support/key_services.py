"""The ways in which boto3 finds credentials: files, a program, and small servers in place of the cloud's.

`given` are the keys that all of them give now; a server counts how often it was asked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import boto3
from minio import MinioAdmin
from minio.credentials import StaticProvider

from infra.servers.minio import PASSWORD, USER

TOKEN = "token-of-the-machine"


@dataclass(frozen=True)
class Keys:
    """Keys, and how long they last as a service says."""

    access_key: str
    secret_key: str
    token: str = ""
    last: timedelta = timedelta(hours=1)

    def document(self, token_name: str = "Token") -> dict[str, object]:
        ends = f"{datetime.now(UTC) + self.last:%Y-%m-%dT%H:%M:%SZ}"
        keys = {"AccessKeyId": self.access_key, "SecretAccessKey": self.secret_key, token_name: self.token}
        return {"Code": "Success", "Version": 1, **keys, "Expiration": ends}


class KeyServices:
    """The metadata of an instance, those of a container, and a service of tokens, by one server."""

    def __init__(self, folder: Path, given: Keys) -> None:
        self.folder, self.given, self.asked = folder, given, 0
        services = self

        class Handler(_Handler):
            of = services

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()
        self.put()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def give(self, given: Keys) -> None:
        """Have all ways but the environment give other keys from now on."""
        self.given = given
        self.put()

    def put(self) -> None:
        """Write the files, each at once: whoever reads one meanwhile has the old or the new."""
        keys = self.given
        lines = f"aws_access_key_id={keys.access_key}\naws_secret_access_key={keys.secret_key}\n"
        lines += f"aws_session_token={keys.token}\n" if keys.token else ""
        print_keys = f"import pathlib; print(pathlib.Path({str(self.folder / 'keys.json')!r}).read_text())"
        self._write("program.py", print_keys)
        self._write("keys.json", json.dumps(keys.document("SessionToken")))
        self._write("credentials", f"[default]\n{lines}\n[other]\n{lines}")
        self._write("config", f"[default]\ncredential_process={sys.executable} {self.folder}/program.py\n")
        self._write("token", TOKEN)

    def _write(self, name: str, text: str) -> None:
        unfinished = self.folder / f"{name}.unfinished"
        unfinished.write_text(text)
        unfinished.rename(self.folder / name)

    def environment(self, way: str) -> Mapping[str, str]:
        """The variables by which boto3 finds this way, and no other."""
        keys, file = self.given, str(self.folder / "credentials")
        ways: dict[str, dict[str, str]] = {
            "environment": {
                "AWS_ACCESS_KEY_ID": keys.access_key,
                "AWS_SECRET_ACCESS_KEY": keys.secret_key,
                **({"AWS_SESSION_TOKEN": keys.token} if keys.token else {}),
            },
            "file": {"AWS_SHARED_CREDENTIALS_FILE": file},
            "profile": {"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "other"},
            "program": {"AWS_CONFIG_FILE": str(self.folder / "config")},
            "instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url, "AWS_EC2_METADATA_DISABLED": "false"},
            "container": {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/container",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN": TOKEN,
            },
            "web identity": {
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.folder / "token"),
                "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/photon",
                "AWS_ENDPOINT_URL_STS": self.url,
            },
        }
        none = dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), str(self.folder / "none"))
        return none | {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1"} | ways[way]


WAYS = ("environment", "file", "profile", "program", "instance", "container", "web identity")
_ROLES = "/latest/meta-data/iam/security-credentials/"
_ROLE_TAKEN_ON = """<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<{action}Result><Credentials><AccessKeyId>{AccessKeyId}</AccessKeyId>
<SecretAccessKey>{SecretAccessKey}</SecretAccessKey><SessionToken>{Token}</SessionToken>
<Expiration>{Expiration}</Expiration></Credentials></{action}Result>
</{action}Response>"""


class _Handler(BaseHTTPRequestHandler):
    of: KeyServices

    def do_PUT(self) -> None:
        self._answer(TOKEN if self.path == "/latest/api/token" else None)

    def do_GET(self) -> None:
        is_known = TOKEN in (self.headers.get("X-aws-ec2-metadata-token"), self.headers.get("Authorization"))
        answers: dict[str, Callable[[], str]] = {
            _ROLES: lambda: "photon",
            f"{_ROLES}photon": self._document,
            "/container": self._document,
        }
        if (answer := answers.get(self.path)) is None:
            return self._answer(None, 404)
        self._answer(answer() if is_known else None)

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        action, shown = asked["Action"][0], asked.get("WebIdentityToken")
        is_known = shown == [TOKEN] if action == "AssumeRoleWithWebIdentity" else action == "AssumeRole"
        of = json.loads(self._document()) if is_known else None
        self._answer(None if of is None else _ROLE_TAKEN_ON.format(action=action, **of))

    def _document(self) -> str:
        self.of.asked += 1
        return json.dumps(self.of.given.document())

    def _answer(self, body: str | None, refusal: int = 401) -> None:
        self.send_response(refusal if body is None else 200)
        data = (body or "").encode()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class StoreUsers:
    """Users of a MinIO whose keys end when a test says so."""

    def __init__(self, url: str) -> None:
        self._url = url
        address, root = url.removeprefix("http://"), StaticProvider(USER, PASSWORD)
        self._admin = MinioAdmin(endpoint=address, credentials=root, secure=False)

    def add(self, name: str) -> Keys:
        """The keys of a new user, without an end."""
        self._admin.user_add(name, f"secret-of-{name}")
        self._admin.policy_set("readwrite", user=name)
        return Keys(name, f"secret-of-{name}")

    def role_of(self, name: str) -> Keys:
        """The keys of a role that a new user has taken on; they end with the user."""
        keys = self.add(name)
        session = boto3.session.Session(keys.access_key, keys.secret_key, region_name="us-east-1")
        sts = session.client("sts", endpoint_url=self._url)
        given = sts.assume_role(RoleArn="arn:minio:iam:::role/any", RoleSessionName="photon")["Credentials"]
        return Keys(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])

    def end(self, name: str) -> None:
        """Have the store refuse this user's keys from now on."""
        self._admin.user_remove(name)
