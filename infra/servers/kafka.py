"""A broker of Kafka for tests of landing: one process with KRaft, on this machine alone."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka.admin import AdminClient

from infra.servers.process import ServerProcess, free_steady_port
from photon.toolchain.java import java_command
from photon.toolchain.maven import kafka

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
HEAP = "-Xmx350m"
ANSWER_SECONDS = 2.0
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
num.network.threads=1
num.io.threads=2
log.retention.check.interval.ms=1000
"""


class KafkaBroker(ServerProcess):
    """One broker; `url` is where clients reach it (`bootstrap.servers`)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"127.0.0.1:{self.port}"
        self._controller_port = free_steady_port()

    def start(self) -> None:
        """Start it; at first its folder is formatted, which takes some seconds."""
        settings = self.folder / "server.properties"
        if not settings.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            settings.write_text(
                _SETTINGS.format(port=self.port, controller=self._controller_port, data=self.folder / "data")
            )
            arguments = ["format", "-t", CLUSTER_ID, "-c", str(settings)]
            subprocess.run([*_java(), "kafka.tools.StorageTool", *arguments], check=True, capture_output=True)
        super().start()

    def command(self) -> Sequence[str]:
        """See `ServerProcess`."""
        return [*_java(), "kafka.Kafka", str(self.folder / "server.properties")]

    def answers(self) -> bool:
        """See `ServerProcess`."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.1):
            client = AdminClient({"bootstrap.servers": self.url, "log_level": 0})
            with suppress(Exception):  # it listens before it serves
                return bool(client.list_topics(timeout=ANSWER_SECONDS).brokers)
        return False


def _java() -> list[str]:
    jars = kafka().folder / "*"
    return [java_command(), HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", str(jars)]
