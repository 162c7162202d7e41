"""Measurements of Photon on this machine: `python -m bench join --size quick`, as `make bench-quick` does."""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from photon.cli.ending import InOrder, fail
from photon.cli.output import DONE, VIOLATION, json_option, log_to_stderr, print_result
from photon.process.errors import NOT_DONE


class Measurements(InOrder, click.Group):
    """Measurements that end in order, as commands of `photon` do."""


@click.group(cls=Measurements)
def bench() -> None:
    """Measure Photon on this machine."""


def measurement(command: Callable[..., None]) -> click.Command:
    """Make a command with `--json` that works in `--folder`, or else in a temporary folder."""

    @functools.wraps(command)
    def run(folder: Path | None, **options: Any) -> None:
        log_to_stderr()
        with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary:
            work = folder or Path(temporary)
            work.mkdir(parents=True, exist_ok=True)
            command(work, **options)

    text = "Where to work, on a disk; kept. Default: a temporary one."
    with_folder = click.option("--folder", type=click.Path(path_type=Path), help=text)(run)
    return bench.command()(json_option(with_folder))


def events_option(which: str, count: int) -> Callable[[Any], Any]:
    """Make the option that says how many events a log has."""
    return click.option(f"--{which}", default=count, show_default=True, help=f"Events of the {which} log.")


plot_option = click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw a picture here; the ending says how."
)


def progress(text: str) -> None:
    """Tell people how far a measurement is."""
    click.echo(text, err=True)


def print_found(found: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print what was measured."""
    print_result(found, "\n".join(lines), as_json)


@measurement
@click.option("--seconds", default=60.0, show_default=True, help="How long to measure.")
@click.option("--primary-per-second", default=1_000.0, show_default=True, help="Of each datacenter's logs.")
@click.option("--foreign-per-second", default=50.0, show_default=True, help="Of each datacenter's logs.")
@plot_option
@click.option("--s3", is_flag=True, help="Logs and tables on a MinIO, which is started and ended.")
def live(
    folder: Path,
    seconds: float,
    primary_per_second: float,
    foreign_per_second: float,
    plot: Path | None,
    s3: bool,
    as_json: bool,
) -> None:
    """Two datacenters join live traffic: seconds from the later of two lines written to the row readable.

    Another process reads the tables. A warm-up comes first and is not measured.
    """
    from bench.live_measurement import MeasurementFailed, measure_live
    from infra.servers.minio import places_on_minio

    rates = primary_per_second, foreign_per_second
    with contextlib.ExitStack() as parts:
        places = parts.enter_context(places_on_minio(folder / "minio", ("east", "west"))) if s3 else None
        try:
            result = measure_live(folder, seconds, *rates, places=places, progress=progress)
        except MeasurementFailed as error:
            fail(str(error), NOT_DONE)
    if plot is not None:
        from bench.live_plot import draw_live
        from bench.plots import save

        save(draw_live(result.rows, result.window), plot)
    values = {
        **result.latency.as_dict(),
        "generator": asdict(result.generator),
        "exit_status": result.exit_status,
    }
    texts = {key: f"{value:.3f}" if isinstance(value, float) else value for key, value in values.items()}
    print_found(values, (f"{key:22}{text}" for key, text in texts.items()), as_json)
    sys.exit(result.exit_status)


@measurement
@click.option("--days", default=30, show_default=True, help="Of event time.")
@click.option("--files", default=100_000, show_default=True, help="Log files that come and go in all of it.")
@click.option("--primaries", default=20_000_000, show_default=True, help="Primary events in these files.")
@click.option("--datacenters", type=click.IntRange(1, 3), default=2, show_default=True)
@click.option("--s3", is_flag=True, help="Logs and tables on a MinIO, which is started and ended.")
def month(
    folder: Path, days: int, files: int, primaries: int, datacenters: int, s3: bool, as_json: bool
) -> None:
    """A month of files that come and go: memory, state, look and batch of the last days beside early ones.

    Each datacenter has as many files and primaries. A line of JSON tells each day of each one.
    """
    from bench.month import Amounts, measure_month

    found = measure_month(folder, Amounts(days, files, primaries), datacenters, s3)
    ratios = {
        (name, what): one for name, of in found["datacenters"].items() for what, one in of["ratios"].items()
    }
    print_found(found, (f"{name:8}{what:14}{one:.2f}" for (name, what), one in ratios.items()), as_json)
    sys.exit(VIOLATION if max(ratios.values(), default=0) > 1.2 else DONE)


@measurement
@click.option("--size", type=click.Choice(["full", "quick", "small"]), default="full", show_default=True)
@click.option("--only", multiple=True, help="This join, and others named so.")
@click.option("--minutes", type=float, help="No run begins later. Default: 27, quick 4.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the tables here, as a Markdown page.")
def join(
    folder: Path,
    size: str,
    only: tuple[str, ...],
    minutes: float | None,
    page: Path | None,
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
    from bench.join_measurement import CONTENDERS, SIZES, measure_joins
    from bench.join_page import all_runs, page_of, write_page

    if unknown := set(only) - set(CONTENDERS):
        raise click.BadParameter(f"no join is called {min(unknown)!r}; there are: {', '.join(CONTENDERS)}")
    sizes = SIZES[size] if minutes is None else replace(SIZES[size], minutes=minutes)
    found = measure_joins(folder, sizes, only or CONTENDERS, progress)
    limit = "" if minutes is None else f" --minutes {minutes:g}"
    command = f"python -m bench join --size {size}{limit}"
    if page is not None:
        write_page(page, found, command)
    print_result(found, page_of(found, command), as_json)
    ours = [run for run in all_runs(found) if run["contender"].startswith("photon")]
    if any(run["found"][fault] for run in ours for fault in ("lost", "doubled", "wrong")):
        sys.exit(VIOLATION)
    sys.exit(NOT_DONE if found["left_out"] else DONE)


@measurement
@click.option("--page", type=click.Path(path_type=Path), default=Path("docs/figures.md"), show_default=True)
@click.option("--only", multiple=True, help="This figure, and others named so; the rest stays as it is.")
@click.option("--quick", is_flag=True, help="Shorter: to try it, not to publish it.")
@click.option("--page-only", is_flag=True, help="Write the page from its JSON; measure and draw nothing.")
def figures(
    folder: Path, page: Path, only: tuple[str, ...], quick: bool, page_only: bool, as_json: bool
) -> None:
    """The figures of the Photon papers: a page of numbers, its JSON and its pictures, in some 25 minutes.

    delay, outage: two datacenters with Spark; peers: Photon beside Spark and Flink, live, each killed once;
    batching, resharding: the registry. Exit status 3 if one failed; then it stays as it was.
    """
    from bench.figures import FIGURES, QUICK, Lengths, measure_figures

    if unknown := set(only) - set(FIGURES):
        raise click.BadParameter(f"no figure is called {min(unknown)!r}; there are: {', '.join(FIGURES)}")
    names = [] if page_only else only or list(FIGURES)
    failed = measure_figures(folder, page, names, QUICK if quick else Lengths(), progress)
    print_found({"page": str(page), "failed": failed}, [f"{page} is written"] if not failed else [], as_json)
    sys.exit(NOT_DONE if failed else DONE)


@measurement
@click.option("--queries", default=20_000, show_default=True, help="Of each pair of logs.")
@click.option("--seed", default=1, show_default=True, help="Of what comes late, and of who clicks.")
def outer(folder: Path, queries: int, seed: int, as_json: bool) -> None:
    """Left outer joins of logs with one ill each: Photon with `photon unmatched`, Spark's and Flink's.

    Late clicks, lines out of order, and a log of clicks that is idle. Exit status 3 if a join failed.
    """
    from bench.outer_measurement import measure_outer

    found = measure_outer(folder, queries, seed, progress)
    print_found(found, map(str, found), as_json)
    sys.exit(NOT_DONE if any("failed" in run for run in found) else DONE)


@measurement
@events_option("primary", 2_000_000)
@events_option("foreign", 100_000)
@click.option("--workers", default=1, show_default=True, help="Tasks at once.")
def rebuild(folder: Path, primary: int, foreign: int, workers: int, as_json: bool) -> None:
    """How fast `photon backfill --rebuild` makes all rows again: with the same adapter, and with another."""
    from bench.rebuild_measurement import lines_of, measure_rebuild

    found = measure_rebuild(folder, primary, foreign, workers, progress)
    print_found(found, lines_of(found), as_json)


@measurement
@click.option("--days", type=click.IntRange(min=2), default=30, show_default=True, help="Of a million rows.")
def sql(folder: Path, days: int, as_json: bool) -> None:
    """How long SQL over a release takes: a day beside DuckDB on its bare files, and slices of minutes."""
    from bench.sql_measurement import measure

    found = measure(folder, days, progress)
    print_found(asdict(found), [str(found)], as_json)


@measurement
@click.option("--seconds", default=60.0, show_default=True, help="Of each one's turns at live traffic.")
@click.option("--rows", default=1_000_000, show_default=True, help="Of the backlog.")
@click.option("--releases", default=500, show_default=True, help="Of the backlog.")
@click.option("--rounds", default=2, show_default=True, help="Of the backlog, behind one that warms up.")
def feed(folder: Path, seconds: float, rows: int, releases: int, rounds: int, as_json: bool) -> None:
    """How soon `photon follow` has rows in PostgreSQL, and how many a second, beside Spark's Delta source."""
    from bench.feed_measurement import measure_feed
    from bench.live_measurement import MeasurementFailed

    try:
        found = measure_feed(folder, seconds, rows, releases, rounds, progress)
    except MeasurementFailed as error:
        fail(str(error), NOT_DONE)
    print_found(found, (f"{key:40}{value:,.2f}" for key, value in found.items()), as_json)


@measurement
@click.option("--seconds", default=60.0, show_default=True, help="Of messages at a steady rate.")
@click.option("--rate", default=5_000, show_default=True, help="Messages a second, of 500 bytes.")
@click.option("--messages", default=1_000_000, show_default=True, help="Of the catch-up.")
def landing(folder: Path, seconds: float, rate: int, messages: int, as_json: bool) -> None:
    """Delay from a broker's acknowledgement to a line that can be read, and messages a core lands."""
    from bench.landing_delay import measure_landing

    found = measure_landing(folder, seconds, rate, messages, progress)
    print_found(found, (f"{name:40}{value:12,.3f}" for name, value in found.items()), as_json)


@measurement
@click.option("--seconds", default=60.0, show_default=True, help="Calm, and again after a kill.")
@click.option("--rate", default=1_000, show_default=True, help="Queries a second; a click for each tenth.")
def landing_peers(folder: Path, seconds: float, rate: int, as_json: bool) -> None:
    """Two topics landed and joined, beside Spark's join of them: delay, cores, and a kill -9 of each."""
    from bench.landing_peers import measure_peers
    from bench.live_measurement import MeasurementFailed

    try:
        found = measure_peers(folder, seconds, rate, progress)
    except MeasurementFailed as error:
        fail(str(error), NOT_DONE)
    lines = (f"{who:10}{name:25}{value:12,.3f}" for who, one in found.items() for name, value in one.items())
    print_found(found, lines, as_json)


@measurement
@click.option("--hours", type=int, multiple=True, default=(1, 24), show_default=True, help="Of logs; repeat.")
@click.option("--events-an-hour", default=10_000, show_default=True, help="Of each log.")
def verification(folder: Path, hours: tuple[int, ...], events_an_hour: int, as_json: bool) -> None:
    """How much memory `photon verify` takes for an hour, and for a day with as many events an hour."""
    from bench.verification_memory import lines_of, measure_verification

    found = measure_verification(folder, hours, events_an_hour, progress)
    print_found(found, lines_of(found), as_json)


@measurement
@events_option("primary", 2_000_000)
@click.option("--silence", default=60.0, show_default=True, help="Seconds before it starts again.")
def returning(folder: Path, primary: int, silence: float, as_json: bool) -> None:
    """Measure a restart after a silence, in which others passed a batch over, beside an ordinary one."""
    from bench.returning import measure_returning

    found = measure_returning(folder, primary, silence, progress)
    print_found(found, [f"{name}: {value}" for name, value in found.items()], as_json)


@measurement
@click.option("--commits", default=200_000, show_default=True, help="To each of two tables.")
def tables(folder: Path, commits: int, as_json: bool) -> None:
    """Measure a table's cost after so many commits, with compaction and without."""
    from bench.fit_tables import lines_of, measure_tables

    found = measure_tables(folder, commits, progress)
    print_found(found, lines_of(found), as_json)


@measurement
@events_option("primary", 1_000_000)
@events_option("foreign", 50_000)
@click.option("--rounds", default=2, show_default=True, help="Of two workers beside two local cores.")
@plot_option
def scaling(folder: Path, primary: int, foreign: int, rounds: int, plot: Path | None, as_json: bool) -> None:
    """How a join grows with cores: two workers of Spark beside two local cores, and 1 to 8 simulated ones.

    A simulated core has a tenth of a real one, so this needs Linux and root. What an event costs in tasks,
    driver and registry says what binds with up to 64 cores.
    """
    from bench.scaling import draw, lines_of
    from bench.scaling_measurement import measure_scaling
    from infra.servers.slow_cores import NoSlowCores

    try:
        found = measure_scaling(folder, primary, foreign, rounds, progress)
    except NoSlowCores as error:
        fail(str(error), NOT_DONE)
    if plot is not None:
        draw(found, plot)
    print_found(found, lines_of(found), as_json)
    sys.exit(NOT_DONE if found["left_out"] else DONE)


@measurement
@click.option(
    "--objects", default=20_000, show_default=True, help="Of both logs, before anything is counted."
)
@click.option("--seconds", default=300.0, show_default=True, help="Of commits, and then without news.")
def s3(folder: Path, objects: int, seconds: float, as_json: bool) -> None:
    """Requests to S3, by method and by kind of key, and their price: of a commit, and of an idle hour."""
    from bench.live_measurement import MeasurementFailed
    from bench.s3_requests import measure_requests

    try:
        found = measure_requests(folder, objects, seconds, progress)
    except MeasurementFailed as error:
        fail(str(error), NOT_DONE)
    lines = (f"{what}: {key:45}{value:>12,}" for what, bill in found.items() for key, value in bill.items())
    print_found(found, lines, as_json)


@measurement
@click.option("--kills", default=10, show_default=True, help="In turn of four datacenters.")
@click.option("--seconds", default=60.0, show_default=True, help="Of the calm time.")
@click.option("--primary-per-second", default=200.0, show_default=True, help="Of each datacenter's logs.")
@click.option("--foreign-per-second", default=20.0, show_default=True, help="Of each datacenter's logs.")
def killed_shift(
    folder: Path,
    kills: int,
    seconds: float,
    primary_per_second: float,
    foreign_per_second: float,
    as_json: bool,
) -> None:
    """Seconds from the kill of a shift to its next row, and live delay calm and beside all reports.

    Two pipelines of two datacenters each under a Dagster with its daemon, in some 15 minutes.
    """
    from bench.killed_shift import lines_of, measure_killed_shift
    from bench.live_measurement import MeasurementFailed

    try:
        found = measure_killed_shift(
            folder, kills, seconds, (primary_per_second, foreign_per_second), progress
        )
    except MeasurementFailed as error:
        fail(str(error), NOT_DONE)
    print_found(asdict(found), lines_of(found), as_json)


USUAL_PARTS = ("rates", "distance", "costs")
PARTS = (*USUAL_PARTS, "size", "small")


@measurement
@click.option("--seconds", default=5.0, show_default=True, help="Of each rate, on a usual machine.")
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="This part, and others named so.")
def registry(folder: Path, seconds: float, only: tuple[str, ...], as_json: bool) -> None:
    """The IdRegistry: claims a second on servers of this machine, drivers far away, and what AWS asks for.

    One process claims, and closes what it claimed before: on one and three dynoxide, three with one down, and
    one DynamoDB Local, in batches of several sizes. Then two drivers at 20 to 300 ms of three and five
    endpoints in virtual time. Costs are arithmetic, from the sizes of entries.

    Two parts are measured only if they are named, for each takes some ten minutes. size: a view of 50 million
    ids, its start, and a task that looks ids up. small: a day of small entries in a ledger of three dynoxide.
    """
    from bench.registry_measurement import lines_of, measure_registry

    found = measure_registry(folder, only or USUAL_PARTS, seconds, progress)
    print_found(found, lines_of(found), as_json)


if __name__ == "__main__":
    bench(prog_name="python -m bench")
