"""How far work is, in words: share, rate and time left. Where they are shown, commands decide."""

from __future__ import annotations

import threading
from collections.abc import Callable

from photon.process.clock import MICROSECONDS, Clock, SystemClock

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def span(seconds: float) -> str:
    """A length of time, for people: 3 min."""
    for unit, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:,.0f} s"


def size(count_bytes: int) -> str:
    """A number of bytes, for people: 1.5 GiB."""
    amount, unit = float(count_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:,.0f} {_UNITS[unit]}" if unit == 0 or amount >= 100 else f"{amount:,.1f} {_UNITS[unit]}"


def pace(
    done: int, total: int | None, seconds: float, in_words: Callable[[int], str] = size, grown: int = 0
) -> str:
    """A sentence such as "40 % of 1.2 GiB, 85 MiB/s, 9 s left".

    `done` of `total` took `seconds`; total None: nobody knows it. `in_words`: an amount for people, with its
    unit. `grown`: how much of `total` was added meanwhile: as much is expected to come.
    """
    if total is not None and 100 * done < total:
        # The first seconds of a join of 48 MiB, while it starts up, would say "27 days left".
        return f"0 % of {in_words(total)}"
    rate = done / seconds if seconds > 0 else 0.0
    a_second = f"{in_words(round(rate))}/s" if round(rate) > 0 else ""
    if total is None:
        parts = [in_words(done), a_second]
    elif done >= total:
        parts = [f"all of {in_words(total)}"]  # no rate: it would sink while the work behind it is done
    else:
        # Rounded down: 100 % would say that it is done.
        share = f"{100 * done // total} % of {in_words(total)}"
        parts = [share, a_second, _left(total - done, done - grown, seconds)]
    return ", ".join(part for part in parts if part)


def _left(left: int, nearer: int, seconds: float) -> str:
    """Say how long the rest takes, if the end came `nearer` by so much in these seconds."""
    if seconds <= 0:
        return ""
    return f"{span(left * seconds / nearer)} left" if nearer > 0 else "as much comes as is done"


def seldom(
    say: Callable[[str], None], every_seconds: float, clock: Clock | None = None
) -> Callable[[str], None]:
    """Return a `say` that passes one text in so many seconds on, and the first after as many. Thread-safe."""
    clock, lock = clock or SystemClock(), threading.Lock()
    said_us = clock.elapsed_us()

    def say_if_due(text: str) -> None:
        nonlocal said_us
        with lock:
            now_us = clock.elapsed_us()
            if now_us - said_us >= every_seconds * MICROSECONDS:
                said_us = now_us
                say(text)

    return say_if_due
