"""The registry decides which release has a number: a part of an entry in the first ledger of a generation.

It is made anew for each position from the release before (L1, R1), so a number is used once. A generation
begins with the last release of the one before. So whoever reads ledgers knows it, and no lake is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from photon.process.faults import fault_point
from photon.registry.appending import append
from photon.registry.entry import Entry, LedgerId, NumberedRelease
from photon.registry.fold import LedgerState
from photon.registry.id_registry import IdRegistry
from photon.registry.view import View
from photon.releases.release import Release, decode_release, encode_release

Make = Callable[[Release | None], Release | None]  # the last release to the next one, if any is due


def numbered(release: Release) -> NumberedRelease:
    """The release as an entry has it."""
    return NumberedRelease(release.number, encode_release(release))


def last_release(view: View) -> Release | None:
    """The last release that was read; None: there is none."""
    return _decoded(view.last_release)


def take_new_releases(view: View) -> list[Release]:
    """The releases that were read since the last call, in their order."""
    found, view.new_releases = view.new_releases, []
    by_number = {one.number: decode_release(one.content) for one in found}  # a genesis has the last one again
    return [by_number[number] for number in sorted(by_number)]


def offer(registry: IdRegistry, make: Make) -> Release | None:
    """Append the release that `make` makes of the last one; None: it makes none, or no ledger takes entries.

    RegistryUnavailable: it may be there or not, and what is read next says so.
    """
    made: list[Release] = []

    def entry(state: LedgerState) -> Entry | None:
        release = make(_decoded(state.release))
        if release is None:
            return None
        made.append(release)
        return Entry(release=numbered(release))

    fault_point("release.before_offer")
    is_appended = append(registry.view, registry.positions, {_newest_ledger(registry.view): entry})
    fault_point("release.after_decided")
    return made[-1] if is_appended else None


def lacked(registry: IdRegistry, copies: Iterable[Release]) -> Release | None:
    """A release that a lake has and the registry lacks, or has otherwise; None without any (L10).

    The view is read on where it is behind: copies of an entry may prove nothing until it is settled.
    """
    known = sorted(copies, key=lambda one: one.number)
    if not known:
        return None
    last = last_release(registry.view)
    if last is None or last.number < known[-1].number:
        registry.catch_up()
        last = last_release(registry.view)
    return next((one for one in known if last is None or _differ(one, last)), None)


def _differ(copy: Release, last: Release) -> bool:
    return copy.number > last.number or (copy.number == last.number and copy != last)


def _newest_ledger(view: View) -> LedgerId:
    """The first ledger of the newest generation in which it is open."""
    newest = (LedgerId(generation, 0) for generation in reversed(view.register.live_generations))
    return next((one for one in newest if view.states[one].is_open), LedgerId(0, 0))


def _decoded(release: NumberedRelease | None) -> Release | None:
    return None if release is None else decode_release(release.content, f"release {release.number}")
