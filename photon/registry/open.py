"""Opening a registry from its address: one client a process, shared by its threads.

What a registry does once it is open belongs in `photon.registry.proposer`.
"""

from __future__ import annotations

from photon.registry.address import RegistryAddress
from photon.registry.proposer import QuorumRegistry
from photon.registry.register_store import RegisterStore


def open_registry(address: RegistryAddress) -> QuorumRegistry:
    """The registry at `address`; the same object for the same address within one process.

    Asks nobody: a registry that is down or gone says so when it is used (RegistryUnavailable, `Unknown`).
    """
    raise NotImplementedError


def open_register(address: RegistryAddress) -> RegisterStore:
    """The small register (epochs, horizon, boundaries) of the registry at `address`."""
    raise NotImplementedError
