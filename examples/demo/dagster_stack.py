"""Dagster's processes of a demo, and what the demo asks of them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.demo.folder import DemoFolder
from examples.demo.process_tree import ProcessTree, Program
from photon import orchestration
from photon.process.errors import UserError
from photon.process.lifeline import bound_to_this_thread

HOST = "127.0.0.1"
# Dagster's own, as in production on one machine.
SETTINGS = Path(orchestration.__file__).with_name("dagster.yaml")
LOCATION = "photon"
DATABASE_SECONDS = 60.0  # 2 s alone
CODE_SERVER_SECONDS = 60.0  # 5 s alone, until it has loaded the code location
UI_SECONDS = 60.0  # 4 s alone
ANSWER_SECONDS = 10  # a busy machine answers a query within two
# The UI asks for news of all assets so often; each time costs a tenth of a core for the default 2 s.
LIVE_POLL_MILLISECONDS = 5_000
_WORKSPACE = """\
load_from:
  - grpc_server: {{host: {host}, port: {port}, location_name: {location}}}
"""

# Waits until something is true, for at most so many seconds; the text says what is waited for.
Until = Callable[[Callable[[], bool], float, str], None]


class DagsterFailed(UserError):
    """Dagster did not do what was asked; the message says what it answered."""


@dataclass(frozen=True)
class DagsterStack:
    """One code server, and a daemon and a webserver that both use it.

    Started as in production. Measured on two busy cores, to the UI's first answer and in CPU seconds: these
    three 8.7 s and 5.5; with `dagster code-server start`, which can reload and so has a process more, 13.4 s
    and 6.7; `dg dev`, which has two more, 18.6 s and 11.2.
    """

    folder: DemoFolder
    code_port: int
    ui_port: int
    pipelines: tuple[Path, ...] = ()  # none: the folder's own

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"

    def prepare(self) -> None:
        """Write what the processes read, and make Dagster's databases, which takes 2 s. DagsterFailed.

        The processes would all make the databases at once, and one of them would fail.
        """
        home = self.folder.dagster_home
        home.mkdir(exist_ok=True)
        shutil.copy(SETTINGS, home / "dagster.yaml")
        self._workspace.write_text(_WORKSPACE.format(host=HOST, port=self.code_port, location=LOCATION))
        log = self.folder.log("databases")
        try:
            with log.open("ab") as output:
                subprocess.run(
                    bound_to_this_thread([path_of("dagster"), "instance", "info"]),
                    stdout=output, stderr=output, check=True,
                    env={**os.environ, **self._environment}, timeout=DATABASE_SECONDS,
                )  # fmt: skip
        except subprocess.SubprocessError as error:
            raise DagsterFailed(f"Dagster can't use {home}: {error}; {log} has its output") from None

    def start(self, tree: ProcessTree, until: Until) -> None:
        """Start the processes, each when what it needs is there. DagsterFailed, or what `until` raises."""
        self.prepare()
        tree.start(self.code_server())
        until(lambda: answers(self.code_port), CODE_SERVER_SECONDS, "the code server to load its location")
        tree.start(self.daemon())
        tree.start(self.webserver())
        until(lambda: answers(self.ui_port), UI_SECONDS, "the UI to answer")

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "DAGSTER_HOME": str(self.folder.dagster_home),
            "PHOTON_PIPELINES": ":".join(map(str, self.pipelines or [self.folder.pipeline])),
        }

    @property
    def _workspace(self) -> Path:
        return self.folder.path / "workspace.yaml"

    def code_server(self) -> Program:
        """Loads the code location once, for all; runs are its children."""
        module = ("-m", "photon.orchestration.definitions", "--location-name", LOCATION)
        return self._program(
            "code-server", "dagster", "api", "grpc", "-h", HOST, "-p", self.code_port, *module
        )

    def webserver(self) -> Program:
        """The UI, and the API that a demo asks."""
        port = ("-h", HOST, "-p", self.ui_port, "--live-data-poll-rate", LIVE_POLL_MILLISECONDS)
        return self._program("webserver", "dagster-webserver", "-w", self._workspace, *port)

    def daemon(self) -> Program:
        """Evaluates the sensors."""
        return self._program("daemon", "dagster-daemon", "run", "-w", self._workspace, ends_first=True)

    def _program(self, name: str, program: str, *arguments: object, ends_first: bool = False) -> Program:
        command = (path_of(program), *map(str, arguments))
        log = self.folder.log(name)
        return Program(name, command, self.folder.path, log, self._environment, ends_first)

    def launch(self, asset: tuple[str, ...]) -> str:
        """Materialize one asset with its checks; the run's id. DagsterFailed."""
        from dagster_graphql import DagsterGraphQLClient

        with _failures():
            client = DagsterGraphQLClient(HOST, self.ui_port, timeout=ANSWER_SECONDS)
            return client.submit_job_execution(
                "__ASSET_JOB", LOCATION, "__repository__", asset_selection=[list(asset)]
            )

    def status_of_run(self, run: str) -> str:
        """As Dagster names it: STARTED, SUCCESS, FAILURE, ... DagsterFailed, also if it is only busy."""
        from dagster_graphql import DagsterGraphQLClient

        with _failures():
            return DagsterGraphQLClient(HOST, self.ui_port, timeout=ANSWER_SECONDS).get_run_status(run).value


@contextmanager
def _failures() -> Iterator[None]:
    from dagster_graphql import DagsterGraphQLClientError

    try:
        yield
    except (DagsterGraphQLClientError, OSError) as error:
        raise DagsterFailed(f"Dagster answered: {error}"[:2_000]) from error


def stack_in(folder: DemoFolder, ui_port: int) -> DagsterStack:
    """Choose ports for a stack in this folder: where the UI's is taken, or 0, it gets another."""
    return DagsterStack(folder, free_port(0), free_port(ui_port))


def path_of(program: str) -> str:
    """A program of this environment."""
    return str(Path(sys.executable).with_name(program))


def answers(port: int) -> bool:
    """Whether somebody answers on this port. The code server does when it has loaded its location."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def free_port(wished: int) -> int:
    """The port wished for, or any other if it is taken or 0."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server itself does
        try:
            probe.bind((HOST, wished))
        except OSError:
            return free_port(0)
        port: int = probe.getsockname()[1]
        return port
