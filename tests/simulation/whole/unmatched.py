"""Unmatched primaries in simulated datacenters: looked for at any moment, and each decided once at rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from unittest import mock

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Releases, Unmatched
from photon.registry.register import with_unmatched_owner
from photon.releases.reading import ReleaseUnreadable
from photon.state.unmatched import published
from photon.storage.tables import OutputTable
from photon.unmatched.found import HeldBack
from photon.unmatched.run import find_unmatched
from tests.simulation import log_lines
from tests.simulation.rules import must
from tests.simulation.whole.processes import Worker
from tests.simulation.whole.site import Site
from tests.simulation.world import NOON_US

# Seeds with this focus look for them again and again, while processes and states come and go.
LOOKS = "look_for_unmatched"
UNMATCHED = (*[LOOKS] * 8, "freeze_a_look", "freeze_a_look", "kill", "freeze", "lose_state", "copy_state")
UNMATCHED += ("restore_state", "clone", "retire", "cut_off", "hold")
AFTER_SECONDS, HOUR_US = 2, 1_000_000  # a simulation has a minute: so its hours are seconds


@contextmanager
def looked_for(site: Site) -> Iterator[None]:
    """Have the site's pipeline ask for unmatched primaries."""
    settings = {
        "unmatched": Unmatched(after=timedelta(seconds=AFTER_SECONDS), columns=("text",)),
        "releases": Releases(every=timedelta(seconds=2)),
        "tailing": site.pipeline.tailing.model_copy(update={"idle_after": timedelta(seconds=3)}),
    }
    site.pipeline = site.pipeline.model_copy(update=settings)
    with ExitStack() as patches:
        for module in ("deciding", "run"):
            patches.enter_context(mock.patch(f"photon.unmatched.{module}.HOUR_US", HOUR_US))
        patches.enter_context(mock.patch("photon.state.completeness.publishing.EVERY_US", HOUR_US))
        yield


def late_primaries(site: Site, number: int) -> None:
    """Log primaries of long ago in each datacenter, in a log that is there and in a new one."""
    for name in site.names:
        folder = site.folder / "logs" / name / "queries"
        logs = [*sorted(folder.iterdir())[:1], folder / f"late-{number}.{site.format}"]
        for each, log in enumerate(logs):
            query = f"late-{number}-{each}"
            record = {"query": query, "at": NOON_US + number, "text": "late", "line": -number}
            log_lines.append(log, site.format, [record])
            site.stamp(log)


def owner_of(site: Site, pipeline: Pipeline) -> str:
    """The datacenter that writes them; empty: none has joined."""
    return with_unmatched_owner(site.ledgers.register, pipeline.datacenters).unmatched_owner


def look(pipeline: Pipeline, worker: Worker) -> None:
    """Run `photon unmatched`, which may be held back."""
    try:
        find_unmatched(pipeline, worker.reader(), worker)  # type: ignore[arg-type]
    except (HeldBack, ReleaseUnreadable) as error:
        worker.last_step = str(error)


def must_be_decided(site: Site, pipeline: Pipeline) -> int:
    """U: each primary of the owner's logs is joined, or unmatched once, or open; how many are unmatched."""
    owner = owner_of(site, pipeline)
    rows: list[str] = []
    joined: set[str] = set()
    for place in pipeline.datacenters.values():
        for name, column in (("unmatched", "primary_id"), ("joined_events", "_primary_id")):
            table = OutputTable(place.lake, name)  # type: ignore[arg-type]
            if table.exists():
                ids = table.load().to_pyarrow_table(columns=[column])[column].to_pylist()
                rows += ids if name == "unmatched" else []
                joined |= set(ids) if name != "unmatched" else set()
    twice = [name for name, count in Counter(rows).items() if count > 1]
    must(not twice, f"U: primaries are unmatched twice: {twice[:3]}")
    done = published(pipeline.datacenters[owner].lake)
    if done is None:  # each look was held back, as where rows have left and nobody has recovered them
        return 0
    times_us: dict[str, int] = {}
    for log in sorted((site.folder / "logs" / owner / "queries").iterdir()):
        for record in log_lines.records_in(log, site.format):
            times_us[record["query"]] = min(int(record["at"]), times_us.get(record["query"], 2**62))
    must(done.up_to_us > 0, "U: nothing is decided")
    missing = [
        name
        for name, at_us in times_us.items()
        if at_us < done.up_to_us and name not in joined and name not in rows
    ]
    must(not missing, f"U: primaries are in no table: {missing[:3]}")
    return len(rows)
