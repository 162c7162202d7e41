"""Which commands there are: in groups, as `photon --help` shows them, and where each one is.

A command's module is imported when it is called. So `photon --help` takes no longer than click does.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

import click

# Commands in groups, each line with the commands that it tells and what they do.
GROUPS: Mapping[str, Mapping[tuple[str, ...], str]] = MappingProxyType(
    {
        "begin": {
            ("setup",): "Fetch what Spark needs beyond its package, once.",
            ("init",): "Write a pipeline file for logs that are there.",
            ("join", "land"): "Join the logs of datacenters; make logs of topics.",
        },
        "look": {
            ("status", "ui"): "How far each datacenter is, what is wrong; a live page.",
            ("verify",): "Classify every foreign record again, and add up.",
            ("trace",): "What happened to one event, in every datacenter.",
        },
        "read": {
            ("sql", "releases"): "Ask one release with SQL; the releases that are kept.",
            ("follow",): "Deliver what each release shows first, on and on.",
        },
        "mend": {
            ("recover",): "Have what verify finds missing looked at again.",
            ("backfill",): "Fill in what days lack, or make their rows again.",
            ("dead-letters",): "What could not be used, and why; mend and join it.",
            ("hold", "resume"): "Keep a datacenter from running; let it run again.",
            ("acknowledge",): "Say that you know what a datacenter has lost.",
            ("retire",): "Give a datacenter up for good.",
        },
        "registry": {("registry",): "Its init, state, backup, repair, reshard, gc, refill."},
        "tables": {
            ("compact",): "Keep the tables of a pipeline fit.",
            ("unmatched",): "Write the primaries that no event was joined with.",
        },
        "more": {
            ("metrics",): "Numbers of each datacenter for a monitoring system.",
            ("availability",): "How many events were readable in time.",
            ("completion",): "Have a shell complete commands and options.",
        },
    }
)
COMMANDS: Mapping[str, str] = MappingProxyType(
    {name: says for rows in GROUPS.values() for names, says in rows.items() for name in names}
)


_MODULES = dict.fromkeys(("hold", "resume", "retire"), "datacenters")  # the others have modules of their own


def command_named(name: str) -> click.Command | None:
    """Import the command that is called so, `dead_letters` for `dead-letters`; None if there is none."""
    if name not in COMMANDS:
        return None
    attribute = name.replace("-", "_")
    module = import_module(f"photon.cli.{_MODULES.get(name, attribute)}")
    command: click.Command = getattr(module, attribute)
    return command
