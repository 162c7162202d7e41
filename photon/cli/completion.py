"""`photon completion`: the script by which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM, VARIABLE = "photon", "_PHOTON_COMPLETE"  # the variable is the one that click looks for


@click.command(
    epilog="""\b
Examples:
  photon completion bash >> ~/.bashrc
  photon completion zsh >> ~/.zshrc
  photon completion fish > ~/.config/fish/completions/photon.fish
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script by which SHELL completes commands, options and files of `photon`."""
    found = get_completion_class(shell)
    assert found is not None, f"click completes {shell}"
    photon = click.get_current_context().find_root().command
    script = found(photon, {}, PROGRAM, VARIABLE)
    # Not `source()`, which asks the bash of this machine for its version: the script may be for another.
    click.echo(script.source_template % script.source_vars())
