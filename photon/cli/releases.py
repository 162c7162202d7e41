"""`photon releases`: the releases that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import (
    expected_errors,
    json_option,
    log_to_stderr,
    pipeline_argument,
    print_result,
)
from photon.cli.sql import time_of
from photon.process.readable import counted

if TYPE_CHECKING:
    from photon.releases.release import Release

LAST = 20


@click.command()
@pipeline_argument
@click.option(
    "--as-of", metavar="TIME", callback=time_of, help="Only the newest one that was made by this time."
)
@click.option("--last", type=click.IntRange(min=1), default=LAST, show_default=True, help="At most so many.")
@json_option
def releases(pipeline_file: Path, as_of: datetime | None, last: int, as_json: bool) -> None:
    """The kept releases of PIPELINE: when each was made, up to when it is complete, and what it shows first.

    Reads the lakes alone; joins may go on.
    """
    log_to_stderr()
    with expected_errors(pipeline_file):
        from photon.pipeline.file import load_pipeline
        from photon.releases.finding import find_release, kept_releases, none_yet

        pipeline = load_pipeline(pipeline_file)
        found = kept_releases(pipeline)
        shown = found[-last:] if as_of is None else [find_release(pipeline, as_of)]
    lines = [line for release in shown for line in lines_of(release)]
    if not found:
        lines = [none_yet(pipeline)]
    elif as_of is None and len(found) > len(shown):
        lines.append(f"the last {len(shown)} of {len(found):,}")
    print_result({"kept": len(found), "releases": described(shown)}, "\n".join(lines), as_json)


def lines_of(release: Release) -> list[str]:
    """A release for people, with what it shows first."""
    from photon.process.clock import in_utc

    found = (*release.unread_sentences(), *release.foreign_sentences(), *release.notes)
    said = [f"  {one}" for one in found]
    if (up_to_us := release.unmatched_up_to_us) is not None:
        said = [f"  unmatched primaries are there up to {in_utc(up_to_us, 'seconds')}", *said]
    return [f"{release.sentence()}: {counted(release.rows, 'row')}", *said]


def described(releases: Sequence[Release]) -> list[dict[str, object]]:
    """Releases for --json."""
    from photon.process.clock import in_iso
    from photon.releases.sql import release_row

    rows = [release_row(release) for release in releases]
    times = {"made_at", "complete_up_to", "mostly_up_to", "unmatched_up_to"}
    return [
        {
            **{name: in_iso(at) if name in times and isinstance(at, int) else at for name, at in row.items()},
            "changed_by_others": release.foreign_sentences(),
        }
        for release, row in zip(releases, rows, strict=True)
    ]
