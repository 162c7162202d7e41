"""The code location: everything that Dagster serves, built by one pure function.

Here is only what is put together with what. The parts themselves belong to `assets`, `resources`
and the other modules of `orchestration`.
"""

from dagster import Definitions


def build_defs() -> Definitions:
    """The definitions of this code location; no I/O, the same for equal arguments."""
    return Definitions()


defs = build_defs()
