"""The ports of servers that tests and measurements start, kill and start again."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from infra.servers import process as server_process

FEW_PORTS = range(19_000, 19_010)
PROCESSES = 2


def _ports_of_one_process(count: int) -> list[int]:
    server_process.PORTS = FEW_PORTS
    return [server_process.free_steady_port() for _ in range(count)]


def test_no_two_servers_get_one_port_whichever_processes_start_them() -> None:
    each = len(FEW_PORTS) // PROCESSES
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        taken = pool.map(_ports_of_one_process, [each] * PROCESSES)
        assert sorted(port for ports in taken for port in ports) == list(FEW_PORTS)
