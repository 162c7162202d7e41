"""Pictures of live delays: how they are spread, and their course, of one join or of several around a kill."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from bench.live_peers import PeerSeen
from bench.plots import first_seen, panels, plain_numbers
from examples.demo.latency import SeenRow, TimeSpan
from examples.demo.plot import COLORS, LEGEND, SHARES, binned, percentiles_over_time
from photon.process.clock import MICROSECONDS

PEER_COLORS = {"photon": "#3b6fb6", "spark": "#e08a2c", "flink": "#6f9d5c"}
BEFORE_KILL_SECONDS = 20
POINTS = 200  # of a line: a picture is to be small


def draw_live(rows: Sequence[SeenRow], window: TimeSpan) -> Figure:
    """One join: the distribution of its delay, and its course."""
    once = first_seen(rows)
    figure, (left, right) = panels(11, 4, columns=2)
    shares = _shares(binned(once, window)["latency_seconds"])
    left.plot(shares.index, shares, color=COLORS["east"], linewidth=1.8)
    left.set(xlabel="seconds", ylabel="percent of rows readable within", xlim=(0, None), ylim=(0, 100))
    for share, seconds in percentiles_over_time(once, window).items():
        right.plot(seconds, color=SHARES[share], linewidth=1.8, label=f"p{share * 100:.0f}")
    right.set(xlabel="seconds since the measurement began", ylabel="seconds", ylim=(0, None))
    right.legend(**LEGEND)
    figure.suptitle("From the later of two lines written to the joined row readable", fontsize=11)
    return figure


def draw_peers(peers: Sequence[PeerSeen]) -> Figure:
    """Several joins: the distributions of their delay while it was calm, and their p90 around the kill."""
    figure, (left, right) = panels(11, 4, columns=2)
    for peer in peers:
        rows, color = first_seen(peer.rows), PEER_COLORS[peer.name]
        calm = [row.latency_us / MICROSECONDS for row in rows if peer.written[row.click_id] in peer.calm]
        shares = _shares(pd.Series(calm))
        left.plot(shares.index, shares, color=color, linewidth=1.8, label=peer.name)
        around = TimeSpan(peer.killed_us - BEFORE_KILL_SECONDS * MICROSECONDS, peer.last_us)
        p90 = percentiles_over_time(rows, around)[0.9]
        right.plot(p90.index - BEFORE_KILL_SECONDS, p90, ".-", color=color, label=peer.name)
    left.set(xlabel="seconds", xscale="log", ylabel="percent of rows readable within", ylim=(0, 100))
    right.set(xlabel="seconds since the kill", yscale="log", ylabel="seconds, p90 of the rows that came")
    for axis in (left.xaxis, right.yaxis):
        plain_numbers(axis)
    right.axvline(0, color="#b03030", linewidth=1, linestyle=(0, (4, 3)))
    right.legend(**LEGEND)
    figure.suptitle("From the later of two lines written to the joined row readable", fontsize=11)
    return figure


def _shares(seconds: pd.Series) -> pd.Series:
    """The percent of delays that are no longer, by seconds."""
    steps = [number / POINTS for number in range(POINTS + 1)]
    return pd.Series([100 * step for step in steps], seconds.quantile(steps, interpolation="higher"))
