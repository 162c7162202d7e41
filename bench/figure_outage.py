"""An outage of one of two datacenters, seen from outside: numbers of `outage_run`, and a picture.

The Photon paper's plots of an outage, from real processes: who joins how much, how long it takes, how a
backlog is caught up, which share of joins is done in vain, and what the second datacenter costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from bench.outage_run import BatchSeen, Seen
from bench.plots import first_seen, panels, plain_numbers
from examples.demo.latency import SeenRow, percentile
from examples.demo.plot import COLORS, SHARES
from photon.process.clock import MICROSECONDS

BIN_SECONDS = 3.0
IN_WORDS = {
    "normal": "with both before the outage",
    "outage": "while the west is away",
    "catch-up": "while the west catches up",
    "recovered": "with both again",
}


def phases_of(seen: Seen) -> dict[str, tuple[int, int]]:
    """The beginning and the end of each part, by its name."""
    return {
        "normal": (seen.begins_us, seen.killed_us),
        "outage": (seen.killed_us, seen.back_us),
        "catch-up": (seen.back_us, seen.caught_up_us),
        "recovered": (seen.caught_up_us, seen.ends_us),
    }


def latencies_of(rows: Iterable[SeenRow], span: tuple[int, int]) -> dict[str, float]:
    """Percentiles of the seconds from the later of two lines to the row readable, of lines of a span."""
    latencies = sorted(row.latency_us for row in rows if span[0] <= row.written_us < span[1])
    return {f"p{share * 100:.0f}": round(percentile(latencies, share) / MICROSECONDS, 3) for share in SHARES}


def longest_gap_seconds(rows: Sequence[SeenRow], span: tuple[int, int]) -> float:
    """The longest time in a span in which no row became readable."""
    times = sorted({row.readable_us for row in rows if span[0] <= row.readable_us < span[1]})
    marks = [span[0], *times, span[1]]
    return round(max(later - one for one, later in pairwise(marks)) / MICROSECONDS, 3)


def last_batch_seconds(rows: Sequence[SeenRow], killed_us: int) -> float:
    """From the kill until everything that was logged before it was readable."""
    late = [row.readable_us - killed_us for row in rows if row.written_us <= killed_us]
    return round(max(0, *late) / MICROSECONDS, 3)


def joins_of(batches: Iterable[BatchSeen], span: tuple[int, int]) -> dict[str, float]:
    """Pairs that were combined, and the percent of them that another datacenter had registered before."""
    within = [batch for batch in batches if span[0] <= batch.at_us < span[1]]
    combined, won = (sum(getattr(batch, key) for batch in within) for key in ("combined", "won"))
    percent = round(100 * (1 - won / combined), 2) if combined else 0.0
    return {"combined": combined, "won": won, "in_vain_percent": percent}


def worst_in_vain(joins: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The part of the run with the largest share of joins in vain, in words, and that share."""
    worst = max(joins, key=lambda name: joins[name]["in_vain_percent"])
    return {"phase": IN_WORDS[worst], "percent": joins[worst]["in_vain_percent"]}


def cores_of(batches: Iterable[BatchSeen], span: tuple[int, int]) -> dict[str, float]:
    """How many cores each datacenter has used in a span."""
    used, before = dict.fromkeys(sorted(COLORS), 0.0), dict.fromkeys(COLORS, 0.0)
    for batch in batches:
        spent = batch.cpu_seconds - before[batch.datacenter]
        if span[0] <= batch.at_us < span[1]:
            used[batch.datacenter] += spent if spent >= 0 else batch.cpu_seconds  # a new process counts anew
        before[batch.datacenter] = batch.cpu_seconds
    seconds = (span[1] - span[0]) / MICROSECONDS
    return {name: round(cpu_seconds / seconds, 3) for name, cpu_seconds in used.items()}


def availability_of(cores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Percent of the work of one datacenter that joins alone: of two, and to lose one of three.

    Where one of three is lost, each of the others does what each of two does.
    """
    two = 100 * sum(cores["normal"].values()) / cores["outage"]["east"]
    return {"two_percent": round(two, 1), "three_to_lose_one_percent": round(3 * two / 2, 1)}


def reads_again_us(seen: Seen) -> float:
    """When the first batch of the west began after it was started again."""
    back = [
        b for b in seen.batches if b.datacenter == "west" and seen.back_us <= b.at_us <= seen.caught_up_us
    ]
    return min((batch.at_us - batch.seconds * MICROSECONDS for batch in back), default=seen.back_us)


def catch_up_of(seen: Seen) -> dict[str, float]:
    """How fast the west has caught up, beside the speed of live traffic; its start is counted too."""
    span = (seen.back_us, seen.caught_up_us)
    read = [b for b in seen.batches if b.datacenter == "west" and span[0] <= b.at_us <= span[1]]
    events = sum(batch.primary + batch.foreign for batch in read)
    seconds = (span[1] - span[0]) / MICROSECONDS
    at_work = (span[1] - reads_again_us(seen)) / MICROSECONDS
    return {
        "backlog_events": events,
        "seconds": round(seconds, 2),
        "seconds_at_work": round(at_work, 2),
        "events_per_second": round(events / at_work, 1),
        "times_live_speed": round(events / at_work / seen.load.events_per_second, 2),
        "times_live_speed_with_start": round(events / seconds / seen.load.events_per_second, 2),
    }


def numbers_of(seen: Seen) -> dict[str, Any]:
    """All that the picture shows, in numbers."""
    rows, phases = first_seen(seen.rows), phases_of(seen)
    joined = {row.click_id for row in rows}
    latencies = {name: latencies_of(rows, span) for name, span in phases.items()}
    cores = {name: cores_of(seen.batches, span) for name, span in phases.items()}
    return {
        "events_per_second": seen.load.events_per_second,
        "foreign_per_second": seen.load.foreign_per_second,
        "seconds": {name: round((e - b) / MICROSECONDS, 1) for name, (b, e) in phases.items()},
        "latency_seconds": latencies,
        "live_p90_in_catch_up_times_normal": round(
            latencies["catch-up"]["p90"] / latencies["normal"]["p90"], 2
        ),
        "longest_gap_seconds": longest_gap_seconds(rows, (seen.begins_us, seen.ends_us)),
        "last_batch_out_after_seconds": last_batch_seconds(rows, seen.killed_us),
        "catch_up": catch_up_of(seen),
        "joins": {name: joins_of(seen.batches, span) for name, span in phases.items()},
        "cores": cores,
        "availability": availability_of(cores),
        "joined_by": {name: _joined_by(rows, span) for name, span in phases.items()},
        "clicks": len(seen.written),
        "lost": len(seen.written.keys() - joined),
        "joined_twice": len({(row.click_id, row.row) for row in seen.rows}) - len(joined),
        "generator_most_behind_seconds": round(seen.behind_seconds, 3),
    }


def _joined_by(rows: Iterable[SeenRow], span: tuple[int, int]) -> dict[str, float]:
    """Rows a second of each datacenter."""
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        if span[0] <= row.readable_us < span[1]:
            counts[row.row[0]] += 1
    seconds = (span[1] - span[0]) / MICROSECONDS
    return {name: round(counts[name] / seconds, 1) for name in sorted(COLORS)}


def _bins(seen: Seen) -> list[tuple[float, tuple[int, int]]]:
    """Middles in seconds since the beginning, and spans."""
    step_us = round(BIN_SECONDS * MICROSECONDS)
    count = (seen.ends_us - seen.begins_us) // step_us
    starts = [seen.begins_us + number * step_us for number in range(count)]
    return [((at - seen.begins_us) / MICROSECONDS + BIN_SECONDS / 2, (at, at + step_us)) for at in starts]


def draw(seen: Seen) -> Figure:
    """Panels over time: who joins, how long it takes, what the west has not read, what is in vain, cores."""
    rows, bins = first_seen(seen.rows), _bins(seen)
    middles = [middle for middle, _ in bins]
    figure, every_axes = panels(9.5, 11.5, rows=5)
    joined_by, delay, unread, vain, cores = every_axes
    rates = [_joined_by(rows, span) for _, span in bins]
    joined_by.stackplot(
        middles, *([rate[name] for rate in rates] for name in COLORS), labels=list(COLORS),
        colors=list(COLORS.values()), step="mid",
    )  # fmt: skip
    joined_by.set(ylabel="rows a second", title="Figure 9: joined by")
    latencies = [latencies_of(rows, span) for _, span in bins]
    for share, color in SHARES.items():
        name = f"p{share * 100:.0f}"
        delay.plot(middles, [each[name] for each in latencies], color=color, label=name)
    delay.set(yscale="log", ylabel="seconds", title="From the later of two lines to the row readable")
    plain_numbers(delay.yaxis)
    looks = [(at - seen.begins_us) / MICROSECONDS for at, _ in seen.unread]
    unread.plot(looks, [size / 1e6 for _, size in seen.unread], color=COLORS["west"], label="west")
    again = (reads_again_us(seen) - seen.begins_us) / MICROSECONDS
    unread.axvline(again, color="#999999", linestyle=":", label="a new epoch reads\nfrom the beginning")
    unread.set(ylabel="MB unread", title="Figure 13: not yet read by the datacenter that died")
    shares = [joins_of(seen.batches, span)["in_vain_percent"] for _, span in bins]
    vain.plot(middles, shares, color="#17345e", label="both")
    vain.set(ylabel="percent", ylim=(0, None), title="Figure 12: joined in vain, the other one was faster")
    used = [cores_of(seen.batches, span) for _, span in bins]
    for name, color in COLORS.items():
        cores.plot(middles, [each[name] for each in used], color=color, label=name)
    cores.set(ylabel="cores", ylim=(0, None), title="Cost: cores in use")
    cores.set(xlabel="seconds", xlim=(0, (seen.ends_us - seen.begins_us) / MICROSECONDS))
    _mark(every_axes, seen)
    return figure


def _mark(every_axes: Iterable[Any], seen: Seen) -> None:
    killed, back, caught_up = (
        (at - seen.begins_us) / MICROSECONDS for at in (seen.killed_us, seen.back_us, seen.caught_up_us)
    )
    for number, axes in enumerate(every_axes):
        away, catches_up = ("west is away", "west catches up") if number == 0 else (None, None)
        axes.axvspan(killed, back, color="#f6ecdf", zorder=0, label=away)
        axes.axvspan(back, caught_up, color="#e9f0e4", zorder=0, label=catches_up)
        axes.title.set_fontsize(10)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
