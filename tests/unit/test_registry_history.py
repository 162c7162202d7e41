"""The checker of histories, fed with wrong ones and with right ones that look wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.history import Answer, Kind, Operation, problems

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"
NEVER = float("inf")


def call(
    kind: Kind, token: str, begin: float, end: float, answer: Answer, holder: str = "", calm: bool = True
) -> Operation:
    return Operation(kind, "a", token, begin, end, answer, holder, calm)


def the_problem(*operations: Operation) -> str:
    found = problems(operations)
    assert len(found) == 1, found
    return found[0].partition(":")[0]


def test_two_winners_one_after_the_other_are_wrong() -> None:
    east = call("commit", EAST, 0, 1, "won")
    west = call("commit", WEST, 2, 3, "won")
    assert the_problem(east, west) == "two held the id without a release between"


def test_two_winners_at_the_same_time_are_wrong() -> None:
    east = call("commit", EAST, 0, 3, "won")
    west = call("commit", WEST, 1, 2, "won")
    assert the_problem(east, west) == "two held the id without a release between"


def test_a_winner_after_a_release_is_right() -> None:
    east = call("commit", EAST, 0, 1, "won")
    gone = call("release", EAST, 2, 3, "released")
    assert not problems([east, gone, call("commit", WEST, 4, 5, "won")])


def test_a_release_that_got_no_answer_may_have_taken_effect() -> None:
    east = call("commit", EAST, 0, 1, "won")
    gone = call("release", EAST, 2, NEVER, "unknown")
    assert not problems([east, gone, call("commit", WEST, 4, 5, "won")])


def test_a_winner_before_the_release_of_the_one_before_began_is_wrong() -> None:
    east = call("commit", EAST, 0, 1, "won")
    west = call("commit", WEST, 2, 3, "won")
    gone = call("release", EAST, 4, 5, "released")
    assert the_problem(east, west, gone) == "two held the id without a release between"


def test_the_release_of_the_later_winner_excuses_nothing() -> None:
    east = call("commit", EAST, 0, 1, "won")
    west = call("commit", WEST, 2, 3, "won")
    gone = call("release", WEST, 2, 3, "released")
    assert the_problem(east, west, gone) == "two held the id without a release between"


def test_two_that_lost_to_each_other_are_wrong() -> None:
    east = call("commit", EAST, 0, 2, "lost", WEST)
    west = call("commit", WEST, 0, 2, "lost", EAST)
    assert the_problem(east, west) == "two held the id without a release between"


def test_losing_to_the_earlier_holder_while_the_id_changes_hands_is_right() -> None:
    east = call("commit", EAST, 0, 1, "won")
    gone = call("release", EAST, 2, 6, "released")
    west = call("commit", WEST, 3, 8, "won")
    north = call("commit", "north:e:1#p:1:0", 4, 7, "lost", EAST)
    assert not problems([east, gone, west, north])


def test_a_holder_that_never_tried_is_wrong() -> None:
    assert the_problem(call("lookup", "", 0, 1, "joined", EAST)) == (
        "the holder had not tried to register the id"
    )


def test_a_holder_that_tries_only_later_is_wrong() -> None:
    early = call("lookup", "", 0, 1, "joined", EAST)
    late = call("commit", EAST, 2, 3, "won")
    assert the_problem(early, late) == "the holder had not tried to register the id"


def test_a_holder_that_got_no_answer_yet_is_right() -> None:
    east = call("commit", EAST, 0, NEVER, "unknown")
    assert not problems([east, call("commit", WEST, 1, 2, "lost", EAST)])


def test_losing_to_oneself_is_wrong() -> None:
    assert the_problem(call("commit", EAST, 0, 1, "lost", EAST)) == "a token lost to itself"


def test_a_released_token_that_wins_is_wrong() -> None:
    gone = call("release", EAST, 0, 1, "released")
    assert the_problem(gone, call("commit", EAST, 2, 3, "won")) == (
        "a token held the id after it was released"
    )


def test_a_token_that_wins_while_it_is_being_released_is_right() -> None:
    gone = call("release", EAST, 0, 3, "released")
    assert not problems([gone, call("commit", EAST, 1, 2, "won")])


def test_an_id_that_is_released_after_clearing_is_wrong() -> None:
    east = call("commit", EAST, 0, 1, "won")
    cleared = call("clear", EAST, 2, 3, "cleared")
    assert the_problem(east, cleared, call("release", EAST, 4, 5, "released")) == (
        "an id that was cleared was let in or released"
    )


def test_a_retry_that_wins_after_clearing_is_wrong() -> None:
    east = call("commit", EAST, 0, 1, "won")
    cleared = call("clear", EAST, 2, 3, "cleared")
    assert the_problem(east, cleared, call("commit", EAST, 4, 5, "won")) == (
        "an id that was cleared was let in or released"
    )


def test_another_plan_that_wins_after_clearing_is_wrong() -> None:
    east = call("commit", EAST, 0, 1, "won")
    cleared = call("clear", EAST, 2, 3, "cleared")
    assert problems([east, cleared, call("commit", "east:e:2#p:1:0", 4, 5, "won")])


def test_a_cleared_holder_is_known_by_its_datacenter() -> None:
    east = call("commit", EAST, 0, 1, "won")
    cleared = call("clear", EAST, 2, 3, "cleared")
    assert not problems([east, cleared, call("commit", WEST, 4, 5, "lost", "east:")])
    assert problems([east, cleared, call("commit", EAST, 4, 5, "lost", "west:")])


def test_a_winner_that_a_later_lookup_does_not_see_is_wrong() -> None:
    east = call("commit", EAST, 0, 1, "won")
    assert the_problem(east, call("lookup", "", 2, 3, "free")) == "an id that somebody held was called free"


def test_a_lookup_with_an_endpoint_out_of_reach_may_call_an_undecided_id_free() -> None:
    east = call("commit", EAST, 0, 1, "won")
    assert not problems([east, call("lookup", "", 2, 3, "free", calm=False)])


def test_ids_have_nothing_to_do_with_each_other() -> None:
    east = call("commit", EAST, 0, 1, "won")
    other = Operation("commit", "b", WEST, 2, 3, "won")
    assert not problems([east, other])


@pytest.mark.parametrize("answer", ["too old", "beyond the horizon"])
def test_an_event_that_is_refused_without_cause_is_wrong(answer: Answer) -> None:
    refused = call("commit", EAST, 0, 1, answer)
    assert the_problem(refused) == "an event was refused without cause"
    assert not problems([replace(refused, may_be_refused=True)])
