"""Packages that only some uses need: a command without them says in one sentence how to install them.

Whoever installs Photon chooses them as extras of the package `photon-join` (pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType

from photon.process.errors import UserError

# The packages that a use imports, by the extra that brings them.
PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "spark": ("pyspark", "py4j", "pandas"),
        "dagster": ("dagster", "dagster_pyspark", "matplotlib"),
        "postgres": ("psycopg2",),
        "kafka": ("confluent_kafka",),
        "objects": ("fastavro", "cramjam"),
    }
)
_MORE = {"spark": ", then: photon setup; a join of small logs needs no Spark: --engine local"}


class ExtraMissing(UserError):
    """A package that only this use of Photon needs is not installed; the message says how to install it."""


def need_extra(extra: str) -> None:
    """ExtraMissing unless the packages of an extra are installed. Imports none of them."""
    for package in PACKAGES[extra]:
        if find_spec(package) is None:
            more = _MORE.get(extra, "")
            raise ExtraMissing(f"{package} is not installed: pip install 'photon-join[{extra}]'{more}")


def has_extra(extra: str) -> bool:
    """Whether the packages of an extra are installed."""
    return all(find_spec(package) is not None for package in PACKAGES[extra])


def need_extra_of(error: ModuleNotFoundError) -> None:
    """ExtraMissing if an import failed for want of a package that an extra brings."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in PACKAGES.items():
        if package in packages:
            need_extra(extra)
