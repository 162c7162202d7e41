"""Follows a history that is made by hand, into a table of PostgreSQL, until it is killed.

`python -m tests.feed.deliver_history URL TABLE SEED RELEASES TARGET`; the file TARGET has the newest release.
"""

from __future__ import annotations

import faulthandler
import random
import signal
import sys
import time
from pathlib import Path

from photon.feed.postgres import PostgresTable
from photon.feed.sink import SinkUnavailable
from tests.feed.made_history import History
from tests.feed.made_steps import FED

PAUSE_SECONDS = 0.01
MOST_AT_ONCE = 5


def main(url: str, table: str, seed: str, releases: str, target: str) -> None:
    faulthandler.register(signal.SIGUSR1)  # who waits in vain for it asks where it stands
    history = History(int(seed), int(releases))
    sink = PostgresTable(url, table, FED, takes_changes=True)
    while True:
        try:
            last = sink.cursor()
            number = 0 if last is None else last.number
            newest = min(number + random.randint(1, MOST_AT_ONCE), int(Path(target).read_text()))
            if number < newest:
                sink.deliver(history.steps(number, newest))
                continue
        except SinkUnavailable as error:
            print(error, file=sys.stderr, flush=True)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
