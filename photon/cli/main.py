"""The `photon` command: how it begins, what its help says, and how it finds the command that is called.

`photon --help` must stay quick and quiet: nothing here imports Spark, Dagster or Arrow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from photon.cli.beginning import (
    ASKING,
    ENDING_AT_ONCE,
    end_quickly,
    let_interrupts_be_told,
    open_missing_streams,
    start_quickly,
)
from photon.cli.commands import COMMANDS, GROUPS, command_named
from photon.cli.ending import Ending, InOrder, fail
from photon.cli.examples import epilog_of
from photon.process.environment import limits_lack

EXIT_STATUSES = """\b
Exit status: 0 done, 1 a violation, or somebody is needed (status --check),
2 wrong usage or bad pipeline file, 3 could not be done, 4 the adapter fails,
5 hardly anything was joined, as its warnings say, 70 a defect in Photon,
130 and 143 interrupted, 141 nobody read what it printed."""


class Photon(InOrder, click.Group):
    """All commands, each imported on its first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = command_named(cmd_name)
        if command is not None and EXIT_STATUSES not in (command.epilog or ""):
            examples = command.epilog or epilog_of(cmd_name)
            command.epilog = "\n\n".join(filter(None, (examples, EXIT_STATUSES)))
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, of which none is imported; then options."""
        named = [
            CompletionItem(name, help=says) for name, says in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all of it on one screen: 24 lines of 80 characters."""
        formatter.write(HELP)

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
            # The shift of a join says it where status reads it.
            if command in COMMANDS and command != "join" and (lack := limits_lack()) is not None:
                fail(str(lack), lack.exit_status, Ending(sys.argv[1:]))
        if command in ASKING:
            start_quickly()
        if command in ENDING_AT_ONCE:
            try:
                super().main(args, prog_name, complete_var, standalone_mode, **extra)
            except SystemExit as ended:
                end_quickly(ended.code if isinstance(ended.code, int) else 0)
        return super().main(args, prog_name, complete_var, standalone_mode, **extra)


def _help() -> str:
    rows = [
        f"{group if number == 0 else '':10}{', '.join(names):14}{says}"
        for group, commands in GROUPS.items()
        for number, (names, says) in enumerate(commands.items())
    ]
    return "\n".join(
        [
            "Photon joins two kinds of event logs that never stop growing: each event once.",
            "Usage: photon COMMAND [PIPELINE, if it is not ./pipeline.yaml] [OPTIONS]",
            *rows,
            "photon COMMAND --help: its options, examples, exit statuses. photon --version",
            "",
        ]
    )


HELP = _help()


@click.command("photon", cls=Photon, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="photon-join", prog_name="photon")
def main() -> None:
    """Join two kinds of event logs that never stop growing: each foreign event exactly once."""


if __name__ == "__main__":
    main()
