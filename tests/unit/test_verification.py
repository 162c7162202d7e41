import pytest

from photon.registry.interface import BeyondHorizon, Free, Holder, Joined, TooOld
from photon.tokens import Occurrence, PlanKey
from photon.verification.classes import (
    EpochStatus,
    Fact,
    FreshJoin,
    Missing,
    Registered,
    class_of,
    class_table,
    classify,
    open_facts,
    registered,
)
from photon.verification.report import DatacenterReport, Finding, VerificationReport

JOINS, DROPS, NO_PRIMARY = FreshJoin("joins"), FreshJoin("drops"), FreshJoin("no primary")
FREE = Registered("free")
EPOCHS = {
    "e1": EpochStatus("east", "live", table_version=5),
    "lost": EpochStatus("west", "revoked", table_version=2**53),
}


def held_by(datacenter: str, epoch: str, batch: int) -> Joined:
    return Joined(Holder(datacenter, PlanKey(datacenter, epoch, batch, "p").token(Occurrence(1, 0))))


# -- classes from facts


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (Fact.BAD_LINE, "dead_letters"),
        (Fact.DEAD_LETTER, "dead_letters"),
        (Fact.SKIPPED, "skipped"),
        (Fact.JOINED | Fact.ROW_HERE, "joined"),
        (Fact.ROW_HERE, "duplicates"),
        (Fact.ROW_ELSEWHERE, "joined_elsewhere"),
        (Fact.PENDING, "pending"),
        (Fact.UNJOINED, "unjoinable"),
        (Fact.GIVEN_UP, "unjoinable"),
        (Fact.TOO_OLD, None),  # recorded, but is it so? The registry is asked
        (Fact(0), None),
    ],
)
def test_a_fact_alone_decides_on_its_class(facts, outcome):
    assert class_of(facts) == outcome


def test_a_row_of_both_datacenters_is_joined_in_each():
    assert class_of(Fact.JOINED | Fact.ROW_HERE | Fact.ROW_ELSEWHERE) == "joined"


def test_another_record_of_an_event_with_a_row_here_is_a_duplicate_even_if_there_is_one_elsewhere():
    assert class_of(Fact.ROW_HERE | Fact.ROW_ELSEWHERE) == "duplicates"


def test_a_record_that_still_waits_though_its_event_got_a_row_elsewhere_is_joined_elsewhere():
    assert class_of(Fact.PENDING | Fact.ROW_ELSEWHERE) == "joined_elsewhere"


def test_an_event_given_up_once_and_looked_for_again_is_pending():
    assert class_of(Fact.UNJOINED | Fact.PENDING) == "pending"


def test_a_dead_letter_of_a_joined_event_is_no_duplicate():
    assert class_of(Fact.DEAD_LETTER | Fact.ROW_HERE) == "dead_letters"


@pytest.mark.parametrize("known", [Fact.ROW_HERE, Fact.ROW_ELSEWHERE, Fact.UNJOINED, Fact.GIVEN_UP])
def test_a_record_that_the_join_answered_as_too_old_stays_so_whatever_became_of_its_event(known):
    assert class_of(Fact.TOO_OLD | known) == "too_old"


@pytest.mark.parametrize(("known", "outcome"), [(Fact.JOINED, "joined"), (Fact.DEAD_LETTER, "dead_letters")])
def test_a_record_with_a_row_or_a_dead_letter_of_its_own_is_not_too_old(known, outcome):
    assert class_of(Fact.TOO_OLD | known) == outcome


def test_only_a_record_that_is_in_no_other_table_than_that_of_what_is_too_old_is_left_open():
    table = class_table()
    assert [bits for bits, outcome in enumerate(table) if outcome is None] == [0, Fact.TOO_OLD]
    assert open_facts() == [0, Fact.TOO_OLD]
    assert len(table) == 2 * max(Fact)


# -- what the registry's answer means


def test_a_batch_beyond_the_tables_version_is_in_flight():
    assert registered(held_by("east", "e1", 6), EPOCHS).standing == "in flight"


def test_a_batch_that_the_table_has_will_never_bring_a_row():
    assert registered(held_by("east", "e1", 5), EPOCHS).standing == "held without a row"


def test_no_batch_of_a_lost_epoch_is_in_flight():
    found = registered(held_by("west", "lost", 10**9), EPOCHS)
    assert found.standing == "held without a row"
    assert "revoked epoch lost" in found.by


def test_a_holder_of_an_epoch_that_the_registry_does_not_know_is_named():
    found = registered(held_by("west", "who", 1), EPOCHS)
    assert found.standing == "held without a row"
    assert "unknown epoch who" in found.by


def test_a_cleared_id_without_a_row_has_lost_its_row():
    found = registered(Joined(Holder("east", None)), EPOCHS)
    assert found.standing == "cleared without a row"
    assert classify(JOINS, found, waits_somewhere=False) == Missing(
        "joined, and its row is gone: datacenter east, cleared", "missing_and_cleared"
    )


def test_an_id_that_was_joined_and_cleared_while_a_verification_ran_is_in_flight():
    assert registered(Joined(Holder("east", None)), EPOCHS, joined_since=True).standing == "in flight"


@pytest.mark.parametrize(
    ("answer", "standing"),
    [(Free(), "free"), (TooOld(), "too old"), (BeyondHorizon(), "beyond horizon")],
)
def test_other_answers_are_what_they_say(answer, standing):
    assert registered(answer, EPOCHS).standing == standing


# -- records that no table has


def test_an_event_with_a_primary_that_nobody_registered_is_missing():
    verdict = classify(JOINS, FREE, waits_somewhere=False)
    assert isinstance(verdict, Missing)
    assert "nobody has registered it" in verdict.why


def test_a_missing_event_names_who_registered_it():
    verdict = classify(JOINS, registered(held_by("east", "e1", 5), EPOCHS), waits_somewhere=False)
    assert isinstance(verdict, Missing)
    assert "datacenter east, batch 5 of its live epoch e1" in verdict.why


def test_an_event_registered_without_a_row_is_missing_even_without_a_primary_here():
    assert isinstance(classify(NO_PRIMARY, Registered("held without a row", "x"), False), Missing)


def test_a_pair_that_the_adapter_drops_is_filtered_whatever_else():
    assert classify(DROPS, FREE, waits_somewhere=True) == "filtered"


def test_a_pair_that_the_adapter_would_drop_is_too_old_where_that_was_asked_first():
    assert classify(DROPS, Registered("too old"), waits_somewhere=False) == "too_old"


def test_an_event_recorded_as_too_old_of_which_the_registry_says_otherwise_is_missing():
    assert isinstance(classify(JOINS, FREE, waits_somewhere=False), Missing)


def test_without_a_primary_anywhere_an_event_is_unjoinable():
    assert classify(NO_PRIMARY, FREE, waits_somewhere=False) == "unjoinable"


def test_an_event_below_the_registrys_boundary_is_too_old():
    assert classify(JOINS, Registered("too old"), waits_somewhere=False) == "too_old"


def test_an_event_of_a_batch_that_is_not_committed_yet_is_pending():
    assert classify(JOINS, Registered("in flight"), waits_somewhere=False) == "pending"


def test_an_event_that_waits_in_another_datacenter_is_not_missing():
    assert classify(JOINS, FREE, waits_somewhere=True) == "pending"
    assert classify(JOINS, Registered("held without a row"), waits_somewhere=True) == "pending"


def test_an_event_on_which_the_adapter_now_fails_is_missing_with_the_reason():
    verdict = classify(FreshJoin("fails", "ValueError: no"), FREE, waits_somewhere=False)
    assert isinstance(verdict, Missing)
    assert verdict.why.endswith("ValueError: no")


def test_an_event_beyond_the_horizon_that_does_not_wait_is_missing():
    assert isinstance(classify(JOINS, Registered("beyond horizon"), waits_somewhere=False), Missing)


# -- the report


def test_the_equation_adds_up_with_what_is_missing():
    report = DatacenterReport(classes={"joined": 5, "skipped": 2, "missing": 1})
    equation = report.equation()
    assert equation.pop("foreign") == sum(equation.values()) == 8


def test_one_violation_in_one_datacenter_breaks_the_promise():
    bad = DatacenterReport(findings=(Finding("duplicate_rows", 1),))
    assert not VerificationReport({"east": DatacenterReport(), "west": bad}, rows=2).ok


def test_an_unjoinable_event_whose_primary_came_is_a_finding_and_breaks_no_promise():
    late = DatacenterReport(findings=(Finding("unjoinable_but_joinable", 3),))
    report = VerificationReport({"east": late}, rows=0)
    assert report.ok
    assert report.as_dict()["east"]["findings"][0]["count"] == 3


def test_an_unjoinable_event_whose_primary_was_read_before_breaks_the_promise():
    found = DatacenterReport(findings=(Finding("unjoinable_but_joinable_when_complete", 1),))
    assert not VerificationReport({"east": found}, rows=0).ok
