"""The register: what people and processes change in it, and how it is written down."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest

from photon.process.errors import FormatTooNew
from photon.registry.entry import Epoch, LedgerId, ledger_numbers
from photon.registry.errors import RegistryUnavailable, RetiredDatacenter
from photon.registry.register import (
    MOST_LEDGERS,
    REGISTER_FORMAT,
    Generation,
    Members,
    Register,
    decode_register,
    encode_register,
    with_boundary,
    with_dropped,
    with_epoch,
    with_generation,
    with_given_up,
    with_hold,
    with_taken,
    with_unmatched_owner,
)

NEW = Register("p", "s", Members(1, ("a",)), generations=(Generation(2, ("east", "west")),))


def test_a_register_comes_back_as_it_was_written_down() -> None:
    members = Members(4, ("a", "b", "c"), down=(1,), fresh=(2,))
    register = replace(with_generation(with_boundary(NEW, 5), 0, 3), members=members, tables={"east": "t"})
    register = with_given_up(with_hold(with_epoch(register, "east")[0], "east", True), "west", True)
    assert decode_register(encode_register(register)) == register
    defaults = [one.name for one in fields(Register) if getattr(register, one.name) == getattr(NEW, one.name)]
    assert set(defaults) <= {
        "pipeline",
        "settings_hash",
        "incarnation",
        "is_refilling",
        "filling",
        "entry_version",
        "unmatched_owner",
        "taken",
        "acknowledgements",
    }


def test_a_register_of_a_newer_photon_is_refused() -> None:
    stored = {**json.loads(encode_register(NEW)), "format": REGISTER_FORMAT + 1}
    with pytest.raises(FormatTooNew, match="the registry's register"):
        decode_register(json.dumps(stored).encode())


def test_a_register_is_of_the_oldest_format_that_has_all_it_says() -> None:
    joined = replace(NEW, epochs={"west": 2})
    before = json.loads(encode_register(joined))
    assert before["format"] == 1
    assert "unmatched_owner" not in before
    owned = with_unmatched_owner(joined, ["east", "west"])
    assert json.loads(encode_register(owned))["format"] == 2
    assert decode_register(encode_register(owned)) == owned
    acknowledged = with_taken(joined, "west", "digest", "")
    assert json.loads(encode_register(acknowledged))["format"] == REGISTER_FORMAT
    assert decode_register(encode_register(acknowledged)) == acknowledged


def test_a_list_of_taken_rows_takes_the_place_of_the_known_one_alone() -> None:
    first = with_taken(NEW, "east", "first", "")
    assert with_taken(first, "east", "second", "") == first
    second = with_taken(first, "east", "second", "first")
    assert (second.taken, second.acknowledgements) == ({"east": "second"}, 2)


def test_the_owner_of_unmatched_primaries_is_the_first_that_has_joined_and_stays_until_it_is_given_up() -> (
    None
):
    assert with_unmatched_owner(NEW, ["east"]).unmatched_owner == ""
    west = with_unmatched_owner(replace(NEW, epochs={"west": 1}), ["east", "west"])
    assert west.unmatched_owner == "west"
    both = replace(west, epochs={"east": 1, "south": 1, "west": 1})
    assert with_unmatched_owner(both, ["east", "west"]) == both
    assert with_given_up(both, "east", True).unmatched_owner == "west"
    nobody = with_given_up(both, "west", False)
    assert nobody.unmatched_owner == ""
    assert with_unmatched_owner(nobody, ["east", "west"]).unmatched_owner == "east"
    assert with_unmatched_owner(with_given_up(nobody, "east", False), ["east", "west"]).unmatched_owner == ""


def test_a_datacenter_is_put_on_hold_and_resumed_again_and_again() -> None:
    held = with_hold(with_hold(NEW, "west", True), "west", True)
    assert held.on_hold == ("west",)
    assert with_hold(held, "east", True).on_hold == ("east", "west")
    assert with_hold(with_hold(held, "west", False), "west", False) == NEW


def test_a_datacenter_that_is_given_up_is_held_and_resumed_no_more_and_begins_no_epoch() -> None:
    given_up = with_given_up(with_hold(NEW, "west", True), "west", is_lake_gone=False)
    assert (given_up.on_hold, given_up.given_up, given_up.lakes_gone) == ((), ("west",), ())
    for is_held in (True, False):
        with pytest.raises(RetiredDatacenter, match="it never runs again"):
            with_hold(given_up, "west", is_held)
    with pytest.raises(RetiredDatacenter):
        with_epoch(given_up, "west")
    assert with_epoch(given_up, "east")[1] == Epoch("east", 1)


def test_a_lake_that_is_gone_stays_so() -> None:
    gone = with_given_up(NEW, "west", is_lake_gone=True)
    assert with_given_up(gone, "west", is_lake_gone=False).lakes_gone == ("west",)
    assert with_given_up(gone, "east", is_lake_gone=False).lakes_gone == ("west",)


def test_no_epoch_begins_while_a_refill_goes_on() -> None:
    with pytest.raises(RegistryUnavailable, match="no epoch begins before that has ended"):
        with_epoch(replace(NEW, is_refilling=True), "east")


def test_numbers_never_go_back() -> None:
    register, first = with_epoch(NEW, "east", known=6)
    assert (first.number, with_epoch(register, "east", known=3)[1].number) == (7, 8)
    assert with_boundary(with_boundary(NEW, 5), 3).boundary_us == 5


def test_a_generation_follows_the_one_it_was_decided_behind() -> None:
    later = with_generation(with_boundary(NEW, 5), 0, 3, ("east", "west", "west"))
    assert later.generations[-1] == Generation(3, ("east", "west", "west"), 5)
    assert with_generation(later, 0, 7) == later
    for ledgers in (0, MOST_LEDGERS + 1):
        with pytest.raises(ValueError, match="expected 1 to"):
            with_generation(NEW, 0, ledgers)


def test_parents_of_a_ledger_are_those_that_had_ids_of_its_range() -> None:
    for before, own in product(range(1, 10), range(1, 10)):
        cells = before * own
        middles = np.array([(((2 * cell + 1) << 63) // cells, 0) for cell in range(cells)], np.uint64)
        register = replace(NEW, generations=(Generation(before), Generation(own)))
        had, has = ledger_numbers(middles, before), ledger_numbers(middles, own)
        for number in range(own):
            expected = sorted({LedgerId(0, one) for one in had[has == number].tolist()})
            assert list(register.parents(LedgerId(1, number))) == expected


def test_the_oldest_generation_alone_is_dropped_and_never_the_last() -> None:
    register = with_generation(with_generation(NEW, 0, 1), 1, 1)
    assert with_dropped(register, 1) == register
    dropped = with_dropped(register, 0)
    assert dropped.live_generations == [1, 2]
    assert with_dropped(with_dropped(dropped, 1), 2).live_generations == [2]
