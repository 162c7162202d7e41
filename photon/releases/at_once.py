"""Releases that a command makes at its end, where no join may run that makes one; and the newest copies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from photon.pipeline.file import Pipeline
from photon.process.clock import Clock, SystemClock
from photon.registry.errors import RegistryMismatch, RegistryMissing, RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import open_reader
from photon.releases import copies
from photon.releases.making import ReleaseSight, closed_places, next_release
from photon.releases.numbering import lacked, last_release, offer
from photon.releases.parts import LakeCounter, count_lakes
from photon.releases.release import REFILL_GAP, Note, Release
from photon.storage.delta import LakeUnavailable

log = logging.getLogger(__name__)


def newest_copies(pipeline: Pipeline, read: Callable[[str], Release | None]) -> dict[str, Release]:
    """The newest release of each datacenter's lake that can be read, by `read` of its name."""
    found: dict[str, Release] = {}
    for name in pipeline.datacenters:
        try:
            newest = read(name)
        except (LakeUnavailable, OSError) as error:
            log.warning("the releases in the lake of datacenter %s can't be read: %s", name, error)
            continue
        if newest is not None:
            found[name] = newest
    return found


def copies_in_lakes(pipeline: Pipeline) -> list[Release]:
    """The newest release of each lake that can be read."""
    lakes = pipeline.datacenters
    return [*newest_copies(pipeline, lambda name: copies.latest(lakes[name].lake)).values()]


def refilled(newest: Release, now_us: int) -> Release:
    """The newest release that is known, as the first one of a registry that was filled anew."""
    note = Note("refilled", newest.by, f"the registry was refilled; this is release {newest.number} again")
    number = newest.number + REFILL_GAP
    return replace(newest, number=number, made_us=max(now_us, newest.made_us + 1), notes=(note,))


def release_now(pipeline: Pipeline, registry: IdRegistry, by: str, clock: Clock) -> Release | None:
    """Make a release of what is closed, and have all lakes keep it that can be reached; None: nothing is new.

    These lakes keep the last one of the registry too. Who can't make it now leaves it to the next join. A
    registry that was put back makes none: it would use a number again (R1), and a refill comes first.
    """
    try:
        registry.read_on()
        if (lacking := lacked(registry, copies_in_lakes(pipeline))) is not None:
            remedy = f"photon registry refill {pipeline.typed}"
            log.warning("no release is made: the registry lacks release %s: %s", lacking.number, remedy)
            return None
        last, register = last_release(registry.view), registry.register
        lakes = {name: LakeCounter(name, place.lake) for name, place in pipeline.datacenters.items()}
        counted = count_lakes(pipeline, lakes, last, closed_places(registry.view), register)
        sight = ReleaseSight(by, last, counted, lakes_gone=frozenset(register.lakes_gone))
        made = offer(registry, lambda now: next_release(sight, clock.now_us()) if now == last else None)
    except (RegistryUnavailable, LakeUnavailable) as error:
        log.warning("the next join makes the release: %s", error)
        return None
    # The last one too: who made it may have been killed before any lake had a copy.
    newest = [one for one in (last, made) if one is not None]
    for name in counted:
        try:
            copies.put(pipeline.datacenters[name].lake, newest)
        except copies.OtherRelease as error:
            raise registry.view.mismatch(str(error)) from None
        except OSError as error:
            log.warning("a release comes into the lake of %s with its next join: %s", name, error)
    return made


def release_at_end(pipeline: Pipeline, by: str) -> None:
    """Make a release at the end of a command that has changed rows; what does not answer leaves it out."""
    try:
        release_now(pipeline, open_reader(pipeline), by, SystemClock())
    except (RegistryUnavailable, RegistryMissing, RegistryMismatch) as error:
        log.warning("the next join makes the release: %s", error)
