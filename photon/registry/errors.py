"""The registry's errors, in place of an answer. Each message has the remedy, as a command to be typed."""

from __future__ import annotations

from photon.process.errors import UserError


class RegistryUnavailable(UserError):
    """The registry does not answer now: wait and ask again."""


class RegistryMismatch(UserError):
    """Registry and pipeline do not belong together (protocol B9), or the registry was put back (L10)."""


class RegistryMissing(UserError):
    """There is no registry for the pipeline yet."""


class RetiredDatacenter(UserError):
    """A person has given this datacenter up as lost: it never runs again (protocol E2)."""


class OtherTable(Exception):
    """The register knows another table of a datacenter than the one that begins an epoch (protocol B9)."""

    def __init__(self, known: str) -> None:
        super().__init__(f"the register knows the table {known}")
        self.known = known
