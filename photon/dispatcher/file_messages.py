"""Write news about log files to the dispatcher's own log, each piece once."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from photon.logs.discovery import FileProblem
from photon.logs.files import Side, TrackedFile
from photon.logs.unread_files import EndedEntry, UnreadFile
from photon.process.clock import in_utc
from photon.process.readable import readable
from photon.state.losses import name_of

log = logging.getLogger(__name__)


def log_problems(side: Side, before: Collection[FileProblem], now: Iterable[FileProblem]) -> None:
    """Warn of the problems that the look before did not find."""
    known = set(before)
    for problem in now:
        if problem not in known:
            log.warning("%s log: %s: %s", side, readable(problem.path), problem.reason)


def log_lost(side: Side, vanished: Iterable[TrackedFile]) -> None:
    """Warn of the files that went away before all their bytes were read."""
    for lost in vanished:
        if lost.unread_bytes:
            log.warning(
                "%s log: %s is %s, and %d bytes of it were not read",
                side, readable(lost.file.path), lost.state, lost.unread_bytes,
            )  # fmt: skip


def log_entries(
    side: Side, before: Iterable[UnreadFile], now: Iterable[UnreadFile], ended: Iterable[EndedEntry]
) -> None:
    """Name the unread files that ended, with the reason, and warn of those that are newly gone."""
    for over in ended:
        since = in_utc(over.entry.since_us, "seconds")
        log.info("%s log: %s, not read since %s: %s", side, over.entry.shown, since, over.because)
    known = {(one.path, one.state) for one in before}
    for one in now:
        if one.state == "gone" and (one.path, one.state) not in known:
            log.warning("%s log: %s is gone, %s", side, one.shown, one.unread_in_words)


def log_unknown_ends(
    side: Side, before: Mapping[int, TrackedFile], changed: Mapping[int, TrackedFile]
) -> None:
    """Warn of the files whose last lines may be lost, unless that was told before."""
    files = {**before, **changed}
    for now in changed.values():
        was_told = now.file.number in before and before[now.file.number].end_unknown
        if now.end_unknown and not was_told:
            least_bytes = now.unread_bytes if now.state != "open" else 0
            log.warning(
                "%s log: what came last to %s may be lost: at least %d bytes, how many more nobody knows",
                side, name_of(now, files), least_bytes,
            )  # fmt: skip
