"""The `photon` command: which commands there are. Each is imported only when it is called.

`photon --help` must stay quick and quiet: nothing here imports Spark, Dagster or Arrow.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from photon.cli.beginning import let_interrupts_be_told, open_missing_streams
from photon.cli.ending import Ending, in_order
from photon.cli.examples import epilog_of
from photon.cli.quick_start import ASKING, ENDING_AT_ONCE, end_quickly, start_quickly

# name -> (module:attribute, what it says in the list of commands)
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("photon.cli.init:init", "Write a pipeline file for logs that are there, and try it."),
    "join": ("photon.cli.join:join", "Join the logs of a pipeline's datacenters."),
    "status": ("photon.cli.status:status", "How far each datacenter is, and what is wrong."),
    "metrics": ("photon.cli.metrics:metrics", "Numbers of each datacenter for a monitoring system."),
    "verify": ("photon.cli.verify:verify", "Classify every foreign record anew and print the equation."),
    "recover": ("photon.cli.recover:recover", "Have what verify finds missing looked at again."),
    "dead-letters": (
        "photon.cli.dead_letters:dead_letters",
        "What could not be used and why; mend it, and have it looked at again.",
    ),
    "availability": ("photon.cli.availability:availability", "How many events were readable in time."),
    "backfill": ("photon.cli.backfill:backfill", "Fill in what some days lack, or make their rows again."),
    "compact": ("photon.cli.compact:compact", "Keep the tables of a pipeline fit."),
    "acknowledge": (
        "photon.cli.acknowledge:acknowledge",
        "Say that you know what a datacenter has lost, and of its bad records.",
    ),
    "trace": ("photon.cli.trace:trace", "What happened to one event, in every datacenter."),
    "registry": (
        "photon.cli.registry:registry",
        "Make, show, repair, shrink or reshard a pipeline's registry.",
    ),
    "hold": ("photon.cli.datacenters:hold", "Keep a datacenter from running, for planned work."),
    "resume": ("photon.cli.datacenters:resume", "Let a datacenter run again that is on hold."),
    "retire": ("photon.cli.datacenters:retire", "Give a datacenter up for good."),
    "completion": ("photon.cli.completion:completion", "Have a shell complete commands and options."),
    "demo": ("examples.demo.command:demo", "Show all of it under Dagster, with a shift that is killed."),
    "bench": ("bench.command:bench", "Measure Photon on this machine."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on their first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.epilog = command.epilog or epilog_of(cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, of which none is imported; then options."""
        named = [
            CompletionItem(name, help=says)
            for name, (_, says) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        command = ""
        if args is None:  # a process of its own, that nobody uses for anything else
            open_missing_streams()
            let_interrupts_be_told()
            command = sys.argv[1] if len(sys.argv) > 1 else ""
        if command in ASKING:
            start_quickly()
        if command in ENDING_AT_ONCE:
            try:
                super().main(args, prog_name, complete_var, standalone_mode, **extra)
            except SystemExit as ended:
                end_quickly(ended.code if isinstance(ended.code, int) else 0)
        return super().main(args, prog_name, complete_var, standalone_mode, **extra)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        ending = Ending(as_json="--json" in args)
        with in_order(ending):
            return super().make_context(info_name, args, parent, obj=ending, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with in_order(ctx.obj):
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="photon-join", prog_name="photon")
def main() -> None:
    """Join two kinds of event logs that never stop growing: each foreign event exactly once.

    Exit status: 0 done, 1 found a violation, or somebody is needed (status --check),
    2 wrong usage or bad pipeline file, 3 could not be done, 4 the adapter fails,
    5 it joined nothing that anybody can have meant, 70 a defect in Photon,
    130 and 143 interrupted, 141 nobody read what it printed.
    """


if __name__ == "__main__":
    main()
