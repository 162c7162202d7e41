"""Releases in ledgers: numbers are decided once, and outlive generations, lost answers and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.registry.errors import RegistryUnavailable
from photon.registry.generations import roll
from photon.registry.id_registry import IdRegistry
from photon.releases import numbering
from photon.releases.numbering import lacked, last_release, offer, take_new_releases
from photon.releases.release import Part, Place, Release
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

FIRST = Release(0, 1, "east", {"east": Part(Place(1, 1), "table", 3, 1)})


def next_one(last: Release | None) -> Release:
    return FIRST if last is None else replace(FIRST, number=last.number + 1)


def release(registry: IdRegistry) -> int:
    made = offer(registry, next_one)
    assert made is not None
    return made.number


@pytest.fixture
def ledgers() -> MemoryLedgers:
    return MemoryLedgers(ledgers=2)


def test_of_two_makers_each_has_a_number_of_its_own(ledgers: MemoryLedgers) -> None:
    east, west = memory_registry(ledgers, "east"), memory_registry(ledgers, "west")
    numbers = [release(one) for one in (east, west, west, east)]
    assert numbers == [0, 1, 2, 3]
    assert [one.number for one in take_new_releases(east.view)] == numbers


def test_without_the_rule_two_makers_use_one_number(
    ledgers: MemoryLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbering, "_decoded", lambda release: None)  # makes it before its place is known
    with pytest.raises(AssertionError):
        test_of_two_makers_each_has_a_number_of_its_own(ledgers)


def test_a_release_that_another_one_came_before_is_made_anew_or_not_at_all(ledgers: MemoryLedgers) -> None:
    east, west = memory_registry(ledgers, "east"), memory_registry(ledgers, "west")
    release(west)
    assert offer(east, lambda last: None if last is not None else FIRST) is None
    assert last_release(east.view) == FIRST


def test_a_lost_answer_gives_a_release_one_number(ledgers: MemoryLedgers) -> None:
    east = memory_registry(ledgers, "east")
    ledgers.lost_answers = 1
    assert [release(east), release(east)] == [0, 1]


def test_a_release_without_an_answer_is_read_later(ledgers: MemoryLedgers) -> None:
    east = memory_registry(ledgers, "east")
    ledgers.lost_answers = 3
    with pytest.raises(RegistryUnavailable):
        release(east)
    east.catch_up()
    assert last_release(east.view) == FIRST


def test_a_generation_begins_with_the_last_release(ledgers: MemoryLedgers) -> None:
    east = memory_registry(ledgers, "east")
    release(east)
    roll(east.view, ledgers, 3)
    assert release(east) == 1
    new = memory_registry(ledgers, "new")
    new.catch_up()
    assert last_release(new.view) == replace(FIRST, number=1)


@pytest.mark.parametrize(
    ("copy", "is_lacked"),
    [
        (FIRST, False),
        (replace(FIRST, number=1), False),
        (replace(FIRST, number=2), True),
        (replace(FIRST, number=1, by="west"), True),
    ],
)
def test_a_registry_lacks_what_is_newer_or_other_than_its_last_release(
    ledgers: MemoryLedgers, copy: Release, is_lacked: bool
) -> None:
    east = memory_registry(ledgers, "east")
    release(east), release(east)
    assert (lacked(memory_registry(ledgers, "new"), [copy]) == copy) == is_lacked


def test_a_registry_without_releases_lacks_any(ledgers: MemoryLedgers) -> None:
    assert lacked(memory_registry(ledgers), [FIRST]) == FIRST
