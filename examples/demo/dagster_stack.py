"""Dagster's processes of a demo: which there are, how they are started, and what is asked of them by HTTP.

Nothing of Dagster is imported: a demo sees it as its users do.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo.folder import DemoFolder
from examples.demo.supervisor import Order

HOST = "127.0.0.1"
LOCATION = "photon"
DATABASE_SECONDS = 60.0  # 2 s alone
ANSWER_SECONDS = 10.0  # a busy machine answers a query within two
# The UI asks for news of all assets so often; each time costs a tenth of a core for the default 2 s.
LIVE_POLL_MILLISECONDS = 5_000
_WORKSPACE = """\
load_from:
  - grpc_server: {{host: {host}, port: {port}, location_name: {location}}}
"""


class DagsterFailed(Exception):
    """Dagster did not do what was asked; the message says what it answered."""


class DagsterBusy(DagsterFailed):
    """It did not answer in time, or not at all; it may later."""


class NoProject(Exception):
    """Photon is installed without the project's folder around it, which holds Dagster's code location."""


@dataclass(frozen=True)
class DagsterStack:
    """One code server, and a daemon and a webserver that both use it.

    Started as in production. Measured on two busy cores, to the UI's first answer and in CPU seconds: these
    three 8.7 s and 5.5; with `dagster code-server start`, which can reload and so has a process more, 13.4 s
    and 6.7; `dg dev`, which has two more, 18.6 s and 11.2.
    """

    folder: DemoFolder
    project: Path
    code_port: int
    ui_port: int

    @property
    def url(self) -> str:
        """The UI's address."""
        return f"http://{HOST}:{self.ui_port}"

    def prepare(self) -> None:
        """Write what the processes read: Dagster's settings, and where the code server is."""
        self.folder.dagster_home.mkdir(exist_ok=True)
        shutil.copy(self.project / "infra" / "dagster.yaml", self.folder.dagster_home / "dagster.yaml")
        text = _WORKSPACE.format(host=HOST, port=self.code_port, location=LOCATION)
        self._workspace.write_text(text)

    def make_databases(self) -> None:
        """Have Dagster make its databases: its processes would do it all at once, and one of them fail.

        DagsterFailed with what Dagster said. Takes 2 s.
        """
        try:
            subprocess.run(
                [_program("dagster"), "instance", "info"], capture_output=True, text=True, check=True,
                env={**os.environ, **self._environment}, timeout=DATABASE_SECONDS,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise DagsterFailed(
                f"Dagster can't use {self.folder.dagster_home}: {error.stderr[-2_000:]}"
            ) from None
        except subprocess.TimeoutExpired:
            raise DagsterFailed(
                f"Dagster made no databases in {self.folder.dagster_home} within {DATABASE_SECONDS:.0f} s"
            ) from None

    @property
    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(self.project), os.environ.get("PYTHONPATH")]))
        return {
            "DAGSTER_HOME": str(self.folder.dagster_home),
            "PHOTON_PIPELINES": str(self.folder.pipeline),
            "PYTHONPATH": path,
        }

    @property
    def _workspace(self) -> Path:
        return self.folder.path / "workspace.yaml"

    def code_server(self) -> Order:
        """Loads the code location once, for all; runs are its children."""
        module = ("-m", "orchestration.definitions", "-d", str(self.project), "--location-name", LOCATION)
        return self._order("code-server", "dagster", "api", "grpc", "-h", HOST, "-p", self.code_port, *module)

    def webserver(self) -> Order:
        """The UI, and the API that a demo asks."""
        port = ("-h", HOST, "-p", self.ui_port, "--live-data-poll-rate", LIVE_POLL_MILLISECONDS)
        return self._order("webserver", "dagster-webserver", "-w", self._workspace, *port)

    def daemon(self) -> Order:
        """Evaluates the sensors."""
        return self._order("daemon", "dagster-daemon", "run", "-w", self._workspace, ends_first=True)

    def _order(self, name: str, program: str, *arguments: object, ends_first: bool = False) -> Order:
        command = (_program(program), *map(str, arguments))
        log = str(self.folder.log(name))
        return Order(name, command, str(self.folder.path), log, self._environment, ends_first)

    # -- what is asked

    def code_server_is_up(self) -> bool:
        """Whether the code location is loaded: the port opens after that."""
        return _answers(self.code_port)

    def ui_is_up(self) -> bool:
        """Whether the UI can be opened."""
        return _answers(self.ui_port)

    def launch(self, asset: tuple[str, ...]) -> str:
        """Materialize one asset with its checks; the run's id."""
        selector = {
            "repositoryLocationName": LOCATION,
            "repositoryName": "__repository__",
            "jobName": "__ASSET_JOB",
            "assetSelection": [{"path": list(asset)}],
        }
        execution = {"selector": selector, "runConfigData": {}, "mode": "default"}
        answer = self._ask(_LAUNCH, {"execution": execution})["launchRun"]
        if "run" not in answer:
            raise DagsterFailed(f"Dagster refused to materialize {'/'.join(asset)}: {json.dumps(answer)}")
        return str(answer["run"]["runId"])

    def status_of_run(self, run: str) -> str:
        """As Dagster names it: STARTED, SUCCESS, FAILURE, ..."""
        return str(self._ask(_STATUS, {"run": run})["runOrError"].get("status", "gone"))

    def _ask(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            raise DagsterFailed(f"Dagster answered {error.code}: {error.read().decode()[:2_000]}") from error
        except OSError as error:
            raise DagsterBusy(f"Dagster's webserver at {self.url} does not answer: {error}") from error
        if found.get("errors"):
            raise DagsterFailed(f"Dagster answered: {json.dumps(found['errors'])[:2_000]}")
        data: dict[str, Any] = found["data"]
        return data


def stack_in(folder: DemoFolder, ui_port: int) -> DagsterStack:
    """A stack for this folder; where the UI's port is taken, or 0, it gets another.

    NoProject without the project's folder.
    """
    project = Path(__file__).parents[2]
    if not (project / "orchestration").is_dir() or not (project / "infra" / "dagster.yaml").is_file():
        raise NoProject(
            f"{project}: expected orchestration/ and infra/dagster.yaml; run from a clone of Photon"
        )
    port = ui_port if ui_port and _is_free(ui_port) else _free_port()
    return DagsterStack(folder, project, _free_port(), port)


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server itself does
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


_LAUNCH = """
mutation Launch($execution: ExecutionParams!) {
  launchRun(executionParams: $execution) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on InvalidSubsetError { message }
    ... on UnauthorizedError { message }
  }
}
"""
_STATUS = """
query Status($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }
"""
