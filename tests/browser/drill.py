"""Real processes that the live page looks at: two datacenters that join live traffic, and `photon ui`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deltalake.exceptions import CommitFailedError

from examples.demo.traffic import Traffic
from examples.demo.traffic_process import generating
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.storage.delta import is_table, open_table
from tests.e2e.photon_process import PHOTON, photon
from tests.e2e.process_marks import soon
from tests.support.registry_writer import writing_in
from tests.support.stopped_processes import stopped

LIVE_SECONDS = 3_600.0  # longer than all tests together
DATACENTERS = ("east", "west")


class Drill:
    """The processes, and what befalls them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        traffic = Traffic(SystemClock().now_us() // MICROSECONDS, DATACENTERS, 50, 10, LIVE_SECONDS)
        self.folder, self._stack, self._joins = folder, stack, dict[str, subprocess.Popen[bytes]]()
        self.file = traffic.write_pipeline(folder)
        self.pipeline: Pipeline = load_pipeline(self.file)
        stack.enter_context(generating(traffic, folder))
        for name in DATACENTERS:
            self.start(name)
        self._run("ui", "--port", "0", log="ui.log")
        address = re.compile(r"http://\S+/")
        assert soon(lambda: address.search(self._said("ui.log")) is not None), self._said("ui.log")
        self.url = address.findall(self._said("ui.log"))[0]

    def start(self, name: str) -> None:
        """Have a process join a datacenter, and wait until it has joined something more."""
        before = self._rows(name)
        self._joins[name] = self._run("join", "-d", name, "--engine", "local", log=f"{name}.log")
        assert soon(lambda: self._rows(name) > before), self._said(f"{name}.log")

    def _run(self, command: str, *options: str, log: str) -> subprocess.Popen[bytes]:
        """Start a command that is killed at the end. It writes to a file, as nobody reads a pipe here."""
        with (self.folder / log).open("ab") as out:
            process = subprocess.Popen(
                [*PHOTON, command, str(self.file), *options], stdout=out, stderr=out, start_new_session=True
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _said(self, log: str) -> str:
        return (self.folder / log).read_text()

    def kill(self, name: str) -> None:
        os.kill(self._joins[name].pid, signal.SIGKILL)
        self._joins[name].wait()

    def hold(self, name: str) -> None:
        photon("hold", self.file, name)

    def resume(self, name: str) -> None:
        """Let the datacenter run again, once its process has ended by the hold."""
        self._joins[name].wait()
        photon("resume", self.file, name)
        self.start(name)

    @contextmanager
    def registry_stands_still(self) -> Iterator[None]:
        """A process stands still in the middle of a transaction of the registry."""
        with writing_in(self.pipeline.registry_folder) as process, stopped(process):
            yield

    def ids(self, name: str) -> list[str]:
        """The ids of the datacenter's joined events."""
        table = open_table(self._table(name)).to_pyarrow_table(columns=["_event_id"])
        return sorted(table["_event_id"].to_pylist())

    def delete_rows(self, name: str, count: int) -> None:
        """Delete rows from the lake, as nobody should."""
        listed = ", ".join(f"'{id}'" for id in self.ids(name)[:count])

        def is_deleted() -> bool:
            try:
                open_table(self._table(name)).delete(f"_event_id IN ({listed})")
            except CommitFailedError:  # its process has committed meanwhile
                return False
            return True

        assert soon(is_deleted)

    def spoil(self, name: str, line: str) -> None:
        """Log a line that nobody can use."""
        logs = self.pipeline.datacenters[name].logs
        assert isinstance(logs, Path)
        (logs / "clicks" / "spoilt.jsonl").write_text(f"{line}\n")

    def verify(self) -> None:
        """Verify, and keep the reports; a broken promise is what the page is to show."""
        photon("verify", self.file, "--record", status=None)

    def _table(self, name: str) -> Path:
        lake = self.pipeline.datacenters[name].lake
        assert isinstance(lake, Path)
        return lake / "joined_events"

    def _rows(self, name: str) -> int:
        return open_table(self._table(name)).count() if is_table(self._table(name)) else 0


@contextmanager
def drilling(folder: Path) -> Iterator[Drill]:
    """Two datacenters that join, and their page."""
    with ExitStack() as stack:
        yield Drill(folder, stack)
