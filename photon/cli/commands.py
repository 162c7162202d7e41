"""Which commands there are: in groups, as `photon --help` shows them, and where each one is.

A command's module is imported when it is called. So `photon --help` takes no longer than click does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

# Commands in groups, each line with the commands that it tells and what they do.
GROUPS: Mapping[str, Mapping[tuple[str, ...], str]] = MappingProxyType(
    {
        "begin": {
            ("init",): "Write a pipeline file for logs that are there.",
            ("join",): "Join the logs of a pipeline's datacenters.",
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


def command_named(name: str) -> click.Command | None:
    """Import the command that is called so; None if there is none."""
    match name:
        case "init":
            from photon.cli.init import init as command
        case "join":
            from photon.cli.join import join as command
        case "status":
            from photon.cli.status import status as command
        case "ui":
            from photon.cli.ui import ui as command
        case "verify":
            from photon.cli.verify import verify as command
        case "trace":
            from photon.cli.trace import trace as command
        case "sql":
            from photon.cli.sql import sql as command
        case "releases":
            from photon.cli.releases import releases as command
        case "follow":
            from photon.cli.follow import follow as command
        case "recover":
            from photon.cli.recover import recover as command
        case "backfill":
            from photon.cli.backfill import backfill as command
        case "dead-letters":
            from photon.cli.dead_letters import dead_letters as command
        case "hold":
            from photon.cli.datacenters import hold as command
        case "resume":
            from photon.cli.datacenters import resume as command
        case "acknowledge":
            from photon.cli.acknowledge import acknowledge as command
        case "retire":
            from photon.cli.datacenters import retire as command
        case "registry":
            from photon.cli.registry import registry

            return registry
        case "compact":
            from photon.cli.compact import compact as command
        case "unmatched":
            from photon.cli.unmatched import unmatched as command
        case "metrics":
            from photon.cli.metrics import metrics as command
        case "availability":
            from photon.cli.availability import availability as command
        case "completion":
            from photon.cli.completion import completion as command
        case _:
            return None
    return command
