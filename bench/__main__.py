"""Measurements of Photon on this machine: `python -m bench join --size quick`, as `make bench-quick` does."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import click

from photon.cli.ending import InOrder, fail
from photon.cli.output import DONE, VIOLATION, json_option, log_to_stderr, print_result
from photon.errors import NOT_DONE


class Measurements(InOrder, click.Group):
    """Measurements that end in order, as commands of `photon` do."""


@click.group(cls=Measurements)
def bench() -> None:
    """Measure Photon on this machine."""


@bench.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long to measure.")
@click.option("--primary-per-second", default=1_000.0, show_default=True, help="Of each datacenter's logs.")
@click.option("--foreign-per-second", default=50.0, show_default=True, help="Of each datacenter's logs.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to work; kept. Default: a temporary one."
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the delay here; the ending says how.")
@click.option("--s3", is_flag=True, help="Logs and tables on a MinIO, which is started and ended.")
@json_option
def live(
    seconds: float,
    primary_per_second: float,
    foreign_per_second: float,
    folder: Path | None,
    plot: Path | None,
    s3: bool,
    as_json: bool,
) -> None:
    """Two datacenters join live traffic: seconds from the later of two lines written to the row readable.

    Another process reads the tables. A warm-up comes first and is not measured.
    """
    log_to_stderr()
    from bench.live_measurement import MeasurementFailed, measure_live
    from bench.minio_server import places_on_minio

    with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary, contextlib.ExitStack() as parts:
        work = folder or Path(temporary)
        places = parts.enter_context(places_on_minio(work / "minio", ("east", "west"))) if s3 else None
        try:
            result = measure_live(
                work,
                seconds,
                primary_per_second,
                foreign_per_second,
                places=places,
                progress=lambda text: click.echo(text, err=True),
            )
        except MeasurementFailed as error:
            fail(str(error), NOT_DONE)
    if plot is not None:
        from bench.latency_plot import draw_live

        draw_live(result.rows, result.window, plot)
    values = {
        **result.latency.as_dict(),
        "generator": asdict(result.generator),
        "exit_status": result.exit_status,
    }
    texts = {key: f"{value:.3f}" if isinstance(value, float) else value for key, value in values.items()}
    print_result(values, "\n".join(f"{key:22}{text}" for key, text in texts.items()), as_json)
    sys.exit(result.exit_status)


@bench.command()
@click.option("--size", type=click.Choice(["full", "quick", "small"]), default="full", show_default=True)
@click.option("--only", multiple=True, help="This join, and others named so.")
@click.option("--minutes", type=float, help="No run begins later. Default: 27, quick 4.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the tables here, as a Markdown page.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to work, on a disk. Default: a temporary one."
)
@json_option
def join(
    size: str,
    only: tuple[str, ...],
    minutes: float | None,
    page: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Photon's join beside those of Spark and Flink, on the same generated logs and cores, in turn, twice.

    One datacenter, and two that race; Spark's stream-stream join with its state in memory and in RocksDB, its
    batch join; Flink's interval join, with its state on the heap and in RocksDB. Then late primaries, files
    out of order, an idle file, and a kill; and what Photon costs by history, files and cores. full: 2 million
    primary and 100,000 foreign events, half an hour at most; quick: a tenth of it, once, and late primaries
    alone: 5 minutes. Beside the page come its plots and its JSON; notes in PAGE-notes.md stay as they are.
    Exit status 1 if a row of Photon's was lost, doubled or wrong, else 3 if a run failed or was left out.
    """
    log_to_stderr()
    from bench.join_measurement import CONTENDERS, SIZES, measure_joins
    from bench.join_page import page_of, write_page

    if unknown := set(only) - set(CONTENDERS):
        raise click.BadParameter(f"no join is called {min(unknown)!r}; there are: {', '.join(CONTENDERS)}")
    sizes = SIZES[size] if minutes is None else replace(SIZES[size], minutes=minutes)
    with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary:
        found = measure_joins(
            folder or Path(temporary),
            sizes,
            only or CONTENDERS,
            progress=lambda text: click.echo(text, err=True),
        )
    limit = "" if minutes is None else f" --minutes {minutes:g}"
    command = f"python -m bench join --size {size}{limit}"
    text = page_of(found, command)
    if page is not None:
        write_page(page, found, command)
    print_result(found, text, as_json)
    joined = [*found["runs"], *found["hurts"], *(one["run"] for one in found["curves"])]
    ours = [run for run in joined if run["contender"].startswith("photon")]
    if any(run["found"][fault] for run in ours for fault in ("lost", "doubled", "wrong")):
        sys.exit(VIOLATION)
    sys.exit(NOT_DONE if found["left_out"] else DONE)


@bench.command()
@click.option("--primary", default=2_000_000, show_default=True, help="Primary events.")
@click.option("--foreign", default=100_000, show_default=True, help="Foreign events; each becomes a row.")
@click.option("--workers", default=1, show_default=True, help="Tasks at once.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to work, on a disk. Default: a temporary one."
)
@json_option
def rebuild(primary: int, foreign: int, workers: int, folder: Path | None, as_json: bool) -> None:
    """How fast `photon backfill --rebuild` makes all rows again: with the same adapter, and with another."""
    log_to_stderr()
    from bench.rebuild_measurement import lines_of, measure_rebuild

    with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary:
        where = folder or Path(temporary)
        where.mkdir(parents=True, exist_ok=True)
        found = measure_rebuild(
            where, primary, foreign, workers, progress=lambda text: click.echo(text, err=True)
        )
    print_result(found, "\n".join(lines_of(found)), as_json)


@bench.command()
@click.option("--hours", type=int, multiple=True, default=(1, 24), show_default=True, help="Of logs; repeat.")
@click.option("--events-an-hour", default=10_000, show_default=True, help="Of each log.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to work, on a disk. Default: a temporary one."
)
@json_option
def verification(hours: tuple[int, ...], events_an_hour: int, folder: Path | None, as_json: bool) -> None:
    """How much memory `photon verify` takes for an hour, and for a day with as many events an hour."""
    log_to_stderr()
    from bench.verification_memory import lines_of, measure_verification

    with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary:
        found = measure_verification(
            folder or Path(temporary), hours, events_an_hour, lambda text: click.echo(text, err=True)
        )
    print_result(found, "\n".join(lines_of(found)), as_json)


@bench.command()
@click.option("--commits", default=200_000, show_default=True, help="To each of two tables.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to work, on a disk. Default: a temporary one."
)
@json_option
def tables(commits: int, folder: Path | None, as_json: bool) -> None:
    """What a table costs after so many commits, with compaction and without."""
    log_to_stderr()
    from bench.fit_tables import lines_of, measure_tables

    with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary:
        found = measure_tables(folder or Path(temporary), commits, lambda text: click.echo(text, err=True))
    print_result(found, "\n".join(lines_of(found)), as_json)


@bench.command()
@click.option("--primary", default=1_000_000, show_default=True, help="Primary events.")
@click.option("--foreign", default=50_000, show_default=True, help="Foreign events; each becomes a row.")
@click.option("--rounds", default=2, show_default=True, help="Of two workers beside two local cores.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the growth here; the ending says how.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to work, on a disk. Default: a temporary one."
)
@json_option
def scaling(
    primary: int, foreign: int, rounds: int, plot: Path | None, folder: Path | None, as_json: bool
) -> None:
    """How a join grows with cores: two workers of Spark beside two local cores, and 1 to 8 simulated ones.

    A simulated core has a tenth of a real one, so this needs Linux and root. What an event costs in tasks,
    driver and registry says what binds with up to 64 cores.
    """
    log_to_stderr()
    from bench.scaling_lines import draw, lines_of
    from bench.scaling_measurement import measure_scaling
    from bench.slow_cores import NoSlowCores

    with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary:
        try:
            found = measure_scaling(
                folder or Path(temporary), primary, foreign, rounds, lambda text: click.echo(text, err=True)
            )
        except NoSlowCores as error:
            fail(str(error), NOT_DONE)
    if plot is not None:
        draw(found, plot)
    print_result(found, "\n".join(lines_of(found)), as_json)
    sys.exit(NOT_DONE if found["left_out"] else DONE)


USUAL_PARTS = ("rates", "distance", "costs")
PARTS = (*USUAL_PARTS, "size", "small")


@bench.command()
@click.option("--seconds", default=5.0, show_default=True, help="Of each rate, on a usual machine.")
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="This part, and others named so.")
@json_option
def registry(seconds: float, only: tuple[str, ...], as_json: bool) -> None:
    """The IdRegistry: claims a second on servers of this machine, drivers far away, and what AWS asks for.

    One process claims, and closes what it claimed before: on one and three dynoxide, three with one down, and
    one DynamoDB Local, in batches of several sizes. Then two drivers at 20 to 300 ms of three and five
    endpoints in virtual time. Costs are arithmetic, from the sizes of entries.

    Two parts are measured only if they are named, for each takes some ten minutes. size: a view of 50 million
    ids, its start, and a task that looks ids up. small: a day of small entries in a ledger of three dynoxide.
    """
    log_to_stderr()
    from bench.registry_measurement import lines_of, measure_registry

    with tempfile.TemporaryDirectory(prefix="photon-bench-") as folder:
        found = measure_registry(
            Path(folder), only or USUAL_PARTS, seconds, progress=lambda text: click.echo(text, err=True)
        )
    print_result(found, "\n".join(lines_of(found)), as_json)


if __name__ == "__main__":
    bench(prog_name="python -m bench")
