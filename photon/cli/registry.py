"""`photon registry`: making the registry of a pipeline, repairing it, and how it stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import json_option, opened, pipeline_argument, print_json

if TYPE_CHECKING:
    from photon.registry.operations.report import RegistryState


@click.group()
def registry() -> None:
    """Make the registry of a pipeline, repair one of its endpoints, or see how it stands."""


@registry.command()
@pipeline_argument
@json_option
def init(pipeline_file: Path, as_json: bool) -> None:
    """Make the registry of PIPELINE, where it is not there: its table, and the register in it.

    Only this command makes tables. It may be repeated, also by several at once.
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import SystemClock
        from photon.registry.operations.init import init_registry

        address = init_registry(pipeline, SystemClock())
    if as_json:
        print_json({"tables": list(address.tables), "endpoints": [str(e) for e in address.endpoints]})
    else:
        places = zip(address.tables, address.endpoints, strict=True)
        tables = ", ".join(f"table {table} at {endpoint}" for table, endpoint in places)
        click.echo(f"registry of {address.pipeline}: {tables}")


@registry.command()
@pipeline_argument
@click.option("--endpoint", "url", required=True, help="URL of the endpoint, as in the pipeline file.")
@json_option
def repair(pipeline_file: Path, url: str, as_json: bool) -> None:
    """Fill an endpoint of PIPELINE's registry that lost its data, was restored, or is new.

    From a majority of the others, while joins go on. May be run again after a failure.
    """
    with opened(pipeline_file) as pipeline:
        from dataclasses import asdict

        from photon.clock import SystemClock
        from photon.registry.operations.repair import repair_endpoint

        done = repair_endpoint(pipeline, url, SystemClock())
    if as_json:
        print_json(asdict(done))
    else:
        click.echo(f"{done.endpoint} is repaired: {done.copied} ids copied, {done.mended} mended afterwards")


@registry.command()
@pipeline_argument
@json_option
def state(pipeline_file: Path, as_json: bool) -> None:
    """How PIPELINE's registry stands: its shards, sizes, tokens, endpoints and epochs.

    Reads the stores, as much as `registry.state` in the pipeline file allows, while joins go on.
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import SystemClock
        from photon.registry.operations.report import look_at_registry

        found = look_at_registry(pipeline, SystemClock())
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo("\n".join(_state_lines(found)))


def _state_lines(found: RegistryState) -> list[str]:
    """The state for people: all shards together, then each endpoint and each epoch."""
    from photon.registry.operations.report import KINDS

    kinds = ", ".join(f"{found.total(kind):,} {kind}" for kind in KINDS)
    lines = [
        f"{found.pipeline}: {found.total('ids'):,} ids ({kinds}) in {found.looked_at}",
        f"  {found.total('key_bytes'):,} bytes of keys, {found.total('value_bytes'):,} beside them",
    ]
    for one in found.endpoints:
        if one.health != "up":
            lines.append(f"  PROBLEM {one.endpoint}: {one.health}: {one.problem}")
        if not one.answers:
            continue
        size = f"{one.items:,} items, {one.bytes:,} bytes, " if one.items is not None else ""
        lines.append(
            f"  {one.endpoint}: {one.health}, a read takes {one.read_ms:.1f} ms, {size}behind at"
            f" {one.behind:,} ids ({one.missing:,} missing, {one.older:,} older, {one.uncleared:,} uncleared)"
        )
    epochs = sorted(found.register.epochs.items(), key=lambda item: item[1].since_us)
    return [*lines, *(f"  epoch {name} of {e.datacenter}: {e.state}" for name, e in epochs)]
