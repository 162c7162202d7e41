"""A demo's decisions: when a phase is over, what is shown, what is told at the end, what is touched."""

from __future__ import annotations

import json
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.demo import scenario
from examples.demo.dagster_stack import HOST, stack_in
from examples.demo.demo import interrupts
from examples.demo.folder import FolderRefused, held_folder
from examples.demo.latency import SeenRow, TimeSpan
from examples.demo.scenario import VERIFY_SECONDS, Facts, Kill, phases
from examples.demo.summary import Course, Summary
from examples.demo.view import as_line, doing, recent_p90_seconds
from photon.dispatcher.shift.growth import Growth, LogSize
from photon.dispatcher.shift.lease import Lease, LeaseStatus
from photon.dispatcher.shift.people import Decisions
from photon.health.facts import Facts as DatacenterFacts
from photon.health.stages import Stages
from photon.health.status import DatacenterStatus, LogStatus
from photon.pipeline.file import load_pipeline, settings_hash
from photon.process.clock import MICROSECONDS
from photon.state.outcomes import Counts
from photon.state.view import StateView
from photon.verification.report import TERMS
from photon.verification.stored_reports import StoredReport

READ = LogStatus(files=3, gone_files=0, read_bytes=100, backlog_bytes=0)
UNREAD = LogStatus(files=3, gone_files=0, read_bytes=100, backlog_bytes=7)
UNDECIDED = Decisions()
HELD = Decisions(on_hold=frozenset({"east"}))
KILL = Kill("west", at_us=60_000_000, gone_us=60_100_000)


CLASSES = {"joined": 1_234, "joined_elsewhere": 99, "unjoinable": 2, "dead_letters": 3}


def datacenter(
    *,
    is_run: bool = True,
    beat_us: int = 0,
    state: dict[str, object] | None = None,
    decisions: Decisions = UNDECIDED,
    **details: Any,
) -> DatacenterStatus:
    """A datacenter that has read everything and runs."""
    values: dict[str, object] = {"epoch": "e", "completed": 7, "counts": Counts(classes=CLASSES)}  # type: ignore[arg-type]
    view = StateView(**(values | (state or {})))  # type: ignore[arg-type]
    growth = Growth(LogSize(3, 100, 0), LogSize(3, 100, 0), "", view, 0.52)
    lease = LeaseStatus(Lease(12, "host", "0123456789ab", 0), is_run, beat_us)
    found = DatacenterFacts("east", 0, growth, lease, decisions=decisions)
    return DatacenterStatus(found, {}, **({"primary": READ, "foreign": READ} | details))


def facts(seconds: float = 0.0, newest_row_us: dict[str, int] | None = None, **more: object) -> Facts:
    values: dict[str, object] = {"datacenters": {"east": datacenter(), "west": datacenter()}}
    return Facts(
        now_us=round(seconds * MICROSECONDS), began_us=0, newest_row_us=newest_row_us or {},
        **(values | more),  # type: ignore[arg-type]
    )  # fmt: skip


def row(click: int, datacenter: str, written_s: float, readable_s: float) -> SeenRow:
    times = (round(written_s * MICROSECONDS), round(readable_s * MICROSECONDS))
    return SeenRow(f"c{click}", (datacenter, "e", 1, f"1:{click}"), *times)


def a_course() -> Course:
    """Both join from 0 to 60 s, west is gone until 80 s, and the clicks cease at 95 s; 0.5 s to each row."""
    rows = [row(n, "east", n / 2, n / 2 + 0.5) for n in range(190)]
    rows += [row(1_000 + n, "west", n / 2, n / 2 + 0.5) for n in range(190) if not 59 <= n / 2 < 79.5]
    rows.append(row(5_000, "east", 70, 75))  # one that took long while west was gone
    spans = {
        "dagster": TimeSpan(-30_000_000, -20_000_000), "start": TimeSpan(-20_000_000, 0),
        "join": TimeSpan(0, 60_000_000), "kill": TimeSpan(60_000_000, 80_100_000),
        "return": TimeSpan(80_100_000, 95_100_000),
    }  # fmt: skip
    return Course(tuple(rows), spans, KILL)


# -- phases


def test_the_demo_begins_when_every_datacenter_has_joined_something() -> None:
    assert not scenario.all_have_rows(facts(newest_row_us={"east": 5}))
    assert scenario.all_have_rows(facts(newest_row_us={"east": 5, "west": 6}))


def test_rows_of_the_killed_shift_do_not_count_as_a_return() -> None:
    assert not scenario.has_returned(facts(newest_row_us={"west": KILL.gone_us}, kill=KILL))
    assert scenario.has_returned(facts(newest_row_us={"west": KILL.gone_us + 1}, kill=KILL))


@pytest.mark.parametrize(
    "busy",
    [
        datacenter(is_run=False, primary=UNREAD),
        datacenter(is_run=False, foreign=UNREAD),
        datacenter(is_run=False, waiting={"primary": 1}),
        datacenter(is_run=False, state={"requeued": 1}),
        datacenter(),
    ],
)
def test_a_demo_is_not_idle_while_something_is_left_or_a_shift_runs(busy: DatacenterStatus) -> None:
    idle = datacenter(is_run=False)
    assert scenario.all_have_left(facts(datacenters={"east": idle, "west": idle}))
    assert not scenario.all_have_left(facts(datacenters={"east": idle, "west": busy}))


def test_every_phase_is_bounded_and_the_join_lasts_as_long_as_asked() -> None:
    listed = phases(42, has_endpoints=True)
    assert all(0 < phase.at_most_seconds <= VERIFY_SECONDS for phase in listed)
    (join,) = (phase for phase in listed if phase.name == "join")
    assert [join.is_over(facts(seconds)) for seconds in (41.9, 42.0)] == [False, True]


def test_no_late_query_comes_after_the_traffic_has_stopped() -> None:
    assert scenario.CALM_SECONDS > 2 * scenario.LATE_SECONDS  # late: once to twice as long


def test_a_demo_that_stays_is_verified_every_few_minutes(tmp_path: Path) -> None:
    traffic = scenario.traffic(1, 60)
    file = traffic.write_pipeline(tmp_path, scenario.PIPELINE, scenario.SETTINGS)
    assert load_pipeline(file).verification.cron == scenario.SELDOM
    before = settings_hash(load_pipeline(file))
    file.write_text(scenario.verified_often(file.read_text()))
    assert load_pipeline(file).verification.cron == scenario.OFTEN
    assert settings_hash(load_pipeline(file)) == before, "it goes on in the folder of another demo"


def test_the_pipeline_file_of_a_demo_is_accepted(tmp_path: Path) -> None:
    traffic = scenario.traffic(1, 60)
    urls = [f"http://127.0.0.1:{port}" for port in (1, 2, 3)]
    settings = scenario.SETTINGS + scenario.registry_over(urls)
    pipeline = load_pipeline(traffic.write_pipeline(tmp_path, scenario.PIPELINE, settings))
    assert [one.url for one in pipeline.registry.endpoints] == urls
    assert tuple(pipeline.datacenters) == scenario.DATACENTERS
    assert scenario.VICTIM in pipeline.datacenters


# -- what is shown


def test_a_row_says_who_runs_a_datacenter_and_how_far_it_is() -> None:
    facts_of_east = facts(datacenters={"east": datacenter(foreign=UNREAD)})
    assert as_line("east", facts_of_east, p90_seconds=0.31) == (
        "east: run 01234567, pid 12, batch 7, joined 1,234, elsewhere 99, waiting 0, given up 2, "
        "dead 3, lag 0.5 s, p90 0.3 s: joins"
    )


@pytest.mark.parametrize(
    ("seen", "lag"),
    [
        (datacenter(), "0.0 s"),
        (datacenter(foreign=UNREAD), "0.5 s"),
        (
            replace(
                datacenter(), waiting={"primary": 2}, stages=Stages(oldest_waiting_seconds={"primary": 7.0})
            ),
            "7.0 s",
        ),
    ],
    ids=["nothing waits", "logs are unread", "a record waits"],
)
def test_a_datacenter_lags_by_what_waits_and_not_by_how_long_its_logs_are_silent(
    seen: DatacenterStatus, lag: str
) -> None:
    assert f", lag {lag}, " in as_line("east", facts(datacenters={"east": seen}), p90_seconds=0.31)


@pytest.mark.parametrize(
    ("seen", "kill", "newest_row_us", "does"),
    [
        (datacenter(foreign=UNREAD), None, 1, "joins"),
        (datacenter(is_run=False, state={"completed": 0}), None, 0, "waits for its first shift"),
        (datacenter(is_run=False), None, 1, "nothing to do: no shift"),
        (datacenter(is_run=False, foreign=UNREAD), None, 1, "work is there: a shift has to come"),
        (datacenter(is_run=False, foreign=UNREAD, decisions=HELD), None, 1, "on hold"),
        (datacenter(is_run=False), KILL, KILL.gone_us, "killed; its next shift has to come"),
        (datacenter(foreign=UNREAD), KILL, 1, "a new shift takes up what the killed one left"),
        (datacenter(foreign=UNREAD), KILL, KILL.gone_us + 1, "joins"),
        (datacenter(beat_us=-9 * MICROSECONDS), None, 1, "no sign of life for 9 s"),
    ],
)
def test_words_say_what_a_datacenter_is_about(
    seen: DatacenterStatus, kill: Kill | None, newest_row_us: int, does: str
) -> None:
    assert doing("west", seen, facts(newest_row_us={"west": newest_row_us}, kill=kill)) == does


def test_the_shown_p90_is_of_one_datacenters_last_seconds() -> None:
    rows = [row(1, "east", 0, 9), row(2, "west", 99, 104), row(3, "east", 100, 101), row(4, "east", 100, 103)]
    assert recent_p90_seconds(rows, "east", 105 * MICROSECONDS) == 3.0


# -- what is told


def test_latency_is_told_apart_by_whether_both_datacenters_were_there() -> None:
    course = a_course()
    assert course.undisturbed == TimeSpan(10 * MICROSECONDS, KILL.at_us)
    assert course.latency(course.undisturbed).p99_seconds == 0.5
    assert course.latency(course.without).most_seconds == 5.0
    assert course.without.seconds == 20.0  # the gap up to its next row


def test_shares_say_that_the_other_datacenter_carried_on() -> None:
    shares = a_course().shares()
    assert shares["without"] == {"east": 40}
    assert shares["before"]["west"] > 0
    assert shares["after"]["west"] > 0


def test_the_summary_has_the_equation_and_what_matters_in_text_and_json() -> None:
    summary = summary_of(
        east=stored_report(foreign=400, joined=250, joined_elsewhere=150),
        west=stored_report(foreign=400, joined=150, joined_elsewhere=250),
    )
    told = json.loads(json.dumps(summary.as_dict(), allow_nan=False))
    assert (told["joined"], told["duplicate_rows"], told["missing"], told["holds"]) == (400, 0, 0, True)
    assert (told["recovery_seconds"], told["total_seconds"]) == (20.0, 125.1)
    assert ["=", "joined", "250", "150"] in [line.split() for line in summary.text().splitlines()]
    assert "VERIFIED" in summary.text()


def test_a_broken_promise_is_said_with_what_to_do() -> None:
    broken = {"kind": "missing", "count": 1, "says": "records are missing", "what_to_do": "read again"}
    text = summary_of(east=stored_report(foreign=1, missing=1, violation=broken)).text()
    assert "PROMISES ARE BROKEN" in text
    assert "east: 1 records are missing. What to do: read again" in text
    assert "VERIFIED" not in text


def stored_report(violation: dict[str, object] | None = None, **terms: int) -> StoredReport:
    report = {**dict.fromkeys(TERMS, 0), **terms, "violations": [violation] if violation else []}
    return StoredReport(0, "run", 1.0, report)


def summary_of(**reports: StoredReport) -> Summary:
    return Summary(reports, a_course(), "http://ui", "plot.png", "demo")


def test_a_verdict_is_made_of_all_datacenters_reports() -> None:
    broken = {
        "kind": "duplicate_rows",
        "count": 2,
        "says": "ids with two rows",
        "what_to_do": "wait",
    }
    sound, unsound = stored_report(foreign=5, joined=5), stored_report(foreign=5, joined=5, violation=broken)
    assert summary_of(east=sound, west=sound).holds
    summary = summary_of(east=sound, west=unsound)
    assert (summary.holds, summary.total("joined"), summary.duplicate_rows) == (False, 10, 2)
    assert "west: 2 ids with two rows. What to do: wait" in summary.text().splitlines()


@pytest.mark.parametrize(
    "equation",
    [
        {"foreign": 6, "joined": 5},  # does not add up
        {"foreign": 6, "joined": 5, "pending": 1},  # not all is done
    ],
)
def test_a_report_of_what_is_not_over_is_no_proof(equation: dict[str, int]) -> None:
    assert not summary_of(east=stored_report(**equation)).holds


# -- the folder


def test_somebody_elses_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FolderRefused, match="was not made by Photon's demo"), held_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_in_which_a_demo_runs_is_refused(tmp_path: Path) -> None:
    with (
        held_folder(tmp_path / "demo"),
        pytest.raises(FolderRefused, match="another demo runs"),
        held_folder(tmp_path / "demo"),
    ):
        pass


def test_a_demo_empties_its_own_folder_and_knows_it_again(tmp_path: Path) -> None:
    with held_folder(tmp_path / "demo") as folder:
        (folder.path / "lake").mkdir()
        folder.pipeline.write_text("name: demo")
    with held_folder(tmp_path / "demo") as folder:
        assert folder.is_begun
        folder.empty()
        assert not folder.is_begun
    with held_folder(tmp_path / "demo"):
        pass


def test_logs_of_earlier_traffic_make_room_for_new_ones_of_the_same_name(tmp_path: Path) -> None:
    with held_folder(tmp_path / "demo") as folder:
        clicks = folder.path / "logs" / "east" / "clicks"
        clicks.mkdir(parents=True)
        for text in ("first", "second"):
            (clicks / "clicks-1.jsonl").write_text(text)
            folder.rotate_logs()
        found = {path.parent.name: path.read_text() for path in clicks.rglob("*.jsonl")}
    assert found == {"earlier-000": "first", "earlier-001": "second"}


# -- its end


def test_the_first_interrupt_ends_a_demo_and_the_second_hurries_its_end() -> None:
    hurried: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as on_second:
        on_second.append(lambda: hurried.append("at once"))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert hurried == []
        signal.raise_signal(signal.SIGINT)
    assert hurried == ["at once"]
    assert signal.getsignal(signal.SIGINT) is before


# -- Dagster's processes


def test_a_taken_port_is_left_to_its_owner(tmp_path: Path) -> None:
    with held_folder(tmp_path / "demo") as folder, socket.socket() as owner:
        owner.bind((HOST, 0))
        owner.listen()
        taken = owner.getsockname()[1]
        assert stack_in(folder, taken).ui_port != taken


def test_dagsters_processes_share_one_code_server_and_one_home(tmp_path: Path) -> None:
    with held_folder(tmp_path / "demo") as folder:
        stack = stack_in(folder, 3000)
        stack.prepare()
        programs = (stack.code_server(), stack.daemon(), stack.webserver())
    assert {program.environment["DAGSTER_HOME"] for program in programs} == {str(folder.dagster_home)}
    assert str(stack.code_port) in (folder.path / "workspace.yaml").read_text()
    assert [program.ends_first for program in programs] == [False, True, False]


def test_what_the_demo_spoils_on_purpose_makes_no_check_of_it_warn(tmp_path: Path) -> None:
    traffic = scenario.traffic(seed=1, duration_seconds=120)
    health = load_pipeline(traffic.write_pipeline(tmp_path, scenario.PIPELINE, scenario.SETTINGS)).health
    expected = traffic.expected_outcomes()
    assert 0 < expected.dead_letters / expected.foreign < health.dead_letters.warn / 2
    assert 0 < expected.primary_dead_letters / expected.primary < health.dead_letters.warn / 2
    assert 0 < expected.unjoinable / expected.foreign < health.unjoinable.warn / 2
