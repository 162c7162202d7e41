"""The boundary leaves ids for as long as they are kept, and never passes what was verified (C2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.process.clock import MICROSECONDS, in_iso, in_utc
from photon.registry.register import Generation, Members, Register
from photon.upkeep.gc import BoundaryLimit, boundary_limit, datacenters_to_verify
from photon.verification.classes import verified_until_us
from photon.verification.report import DatacenterReport, Finding, Unverified, VerifiedEarlier
from photon.verification.stored_reports import StoredReport

DAY_US = 86_400 * MICROSECONDS
NOW_US = 1_000 * DAY_US


def register(given_up: tuple[str, ...] = (), **epochs: int) -> Register:
    return Register(
        "p", "s", Members(1, ("a",)), generations=(Generation(1),), epochs=epochs, given_up=given_up
    )


REGISTER = register(east=1, west=2)


def verified(until_us: int | None, ok: bool = True, epoch: str | None = "1") -> StoredReport:
    return stored(DatacenterReport(verified_until_us=until_us, epoch=epoch), ok)


def stored(report: DatacenterReport, ok: bool = True) -> StoredReport:
    findings = () if ok else (Finding("missing", 1),)
    return StoredReport(NOW_US, "a run", 1.0, replace(report, findings=findings).as_dict())


WEST = verified(NOW_US, epoch="2")
BOTH = {"east": verified(NOW_US), "west": WEST}


def test_the_boundary_stays_behind_the_datacenter_that_is_verified_least_far() -> None:
    kept = boundary_limit(NOW_US, 30, BOTH, REGISTER)
    assert kept == BoundaryLimit(NOW_US - 30 * DAY_US, "ids are kept for 30 days")
    west = verified(NOW_US - 70 * DAY_US, epoch="2")
    reports = {"east": verified(NOW_US - 50 * DAY_US), "west": west}
    found = boundary_limit(NOW_US, 30, reports, REGISTER)
    assert found == BoundaryLimit(NOW_US - 70 * DAY_US, "west is verified up to there")


OTHER_EPOCH = "the last verification of west was not of the epoch"


@pytest.mark.parametrize(
    ("west", "because"),
    [
        (None, "west was never verified"),
        (verified(NOW_US, ok=False, epoch="2"), "found a promise broken"),
        (verified(None, epoch="2"), "read no event"),
        (verified(NOW_US, epoch="of another registry"), OTHER_EPOCH),
        (verified(NOW_US, epoch=None), OTHER_EPOCH),
        (verified(NOW_US, epoch="1"), OTHER_EPOCH),  # the epoch before
        (verified(NOW_US, epoch="3"), OTHER_EPOCH),  # a later epoch: the registry was put back
    ],
)
def test_no_id_goes_while_the_verification_of_one_datacenter_says_too_little(
    west: StoredReport | None, because: str
) -> None:
    found = boundary_limit(NOW_US, 30, {**BOTH, "west": west}, REGISTER)
    assert found.boundary_us is None
    assert because in found.because


def test_no_id_goes_where_they_are_kept_for_ever() -> None:
    found = boundary_limit(NOW_US, None, BOTH, REGISTER)
    assert found.boundary_us is None
    assert "keep_days is null" in found.because


@pytest.mark.parametrize(("side", "is_held"), [("foreign", True), ("primary", False)])
def test_a_foreign_log_that_could_not_be_verified_holds_the_boundary(side: str, is_held: bool) -> None:
    gone = Unverified("clicks/a.jsonl", side, bytes=10, reason="the file is not there")
    report = DatacenterReport(verified_until_us=NOW_US, epoch="1", unverified=(gone,))
    assert not report.violations, "which is why it has to be looked at"
    found = boundary_limit(NOW_US, 30, {"east": stored(report)}, register(east=1))
    assert (found.boundary_us is None) == is_held
    assert ("clicks/a.jsonl" in found.because) == is_held


def test_a_log_that_is_gone_and_was_verified_before_does_not_hold_it() -> None:
    report = DatacenterReport(
        verified_until_us=NOW_US, epoch="1", verified_earlier=VerifiedEarlier(1, 10, "clicks/a.jsonl")
    )
    found = boundary_limit(NOW_US, 30, {"east": stored(report)}, register(east=1))
    assert found == BoundaryLimit(NOW_US - 30 * DAY_US, "ids are kept for 30 days")


def test_a_datacenter_that_is_given_up_is_not_waited_for() -> None:
    now = register(("west",), east=2, west=1)
    assert datacenters_to_verify(["east", "west", "new"], now) == ["east", "new"]


def test_a_datacenter_that_the_pipeline_file_does_not_name_counts_until_it_is_given_up() -> None:
    now = register(east=1, west=1)
    assert datacenters_to_verify(["east"], now) == ["east", "west"]
    found = boundary_limit(NOW_US, 30, {"east": verified(NOW_US)}, now)
    assert found.boundary_us is None
    assert "west is not in the pipeline file" in found.because
    found = boundary_limit(NOW_US, 30, {"east": verified(NOW_US)}, register(("west",), east=1, west=1))
    assert found == BoundaryLimit(NOW_US - 30 * DAY_US, "ids are kept for 30 days")


# -- what a window has verified


def test_a_window_reaches_as_far_as_its_latest_event() -> None:
    assert verified_until_us({1: 50, 2: 70}, unread=set(), pending_us=None) == 70


def test_a_file_that_goes_on_holds_it_at_what_was_read_there() -> None:
    assert verified_until_us({1: 50, 2: 70, 3: 60}, unread={1, 3}, pending_us=None) == 50


def test_a_file_of_which_nothing_was_read_yet_does_not_hold_it() -> None:
    assert verified_until_us({1: 50}, unread={2}, pending_us=None) == 50


def test_an_event_that_waits_holds_it() -> None:
    assert verified_until_us({1: 50}, unread=set(), pending_us=20) == 20


def test_without_any_event_nothing_is_known() -> None:
    assert verified_until_us({}, unread=set(), pending_us=20) is None


# -- words


def test_times_are_written_in_utc_and_beyond_the_calendar_as_they_are() -> None:
    assert in_utc(1_500_000) == "1970-01-01 00:00:01.500000 UTC"
    assert in_utc(1_500_000, "minutes") == "1970-01-01 00:00 UTC"
    assert in_iso(1_500_000) == "1970-01-01T00:00:01.500000+00:00"
    assert in_utc(2**62) == in_iso(2**62) == f"{2**62} us"
