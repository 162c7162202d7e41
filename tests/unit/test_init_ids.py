"""`photon init` proposes an id, or asks: a wrong one would drop events without a word."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from photon.profile.column_roles import Answers, Guess, guess
from photon.profile.findings import OpenQuestion
from photon.profile.sample import read_sample, where_of

Row = dict[str, Any]
BEGIN_S = 1_767_607_200  # 2026-01-05T10:00:00Z
SNOWFLAKE = 1_896_543_210_987_654_321
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CHANCE = random.Random(7)


def told(
    folder: Path,
    primary: Sequence[Row],
    foreign: Sequence[Row],
    names: tuple[str, str] = ("a", "b"),
    **said: Any,
) -> Guess | tuple[OpenQuestion, ...]:
    """Write two logs into files called `names`, and return what `init` finds out about them."""
    for name, rows in zip(names, (primary, foreign), strict=True):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    places = where_of(*(str(folder / f"{name}.jsonl") for name in names))
    samples = read_sample("primary", places[0]), read_sample("foreign", places[1])
    return guess(*samples, Answers(**said))


def queries(count: int = 60, query_id: Callable[[int], Any] = lambda i: f"q{i}") -> list[Row]:
    return [{"query_id": query_id(i), "time": BEGIN_S + i, "text": f"word {i}"} for i in range(count)]


def foreign(count: int = 120, queries: int = 60, **columns: Callable[[int], Any]) -> list[Row]:
    """Foreign events with a key, a time, and more columns by their number."""
    return [
        {
            **{name: value(i) for name, value in columns.items()},
            "query_id": f"q{i % queries}",
            "at": BEGIN_S + i,
        }
        for i in range(count)
    ]


def connections() -> tuple[list[Row], list[Row]]:
    """A connection log and an HTTP log; two of twenty connections have a second request."""
    uids = [f"C{CHANCE.getrandbits(64):x}" for _ in range(20)]
    ports = CHANCE.sample(range(30_000, 60_000), 20)
    connected = [
        {"ts": BEGIN_S + i + 0.123456, "uid": uid, "port": port, "service": "http"}
        for i, (uid, port) in enumerate(zip(uids, ports, strict=True))
    ]
    requests = [
        {
            "ts": row["ts"] + depth,
            "uid": row["uid"],
            "port": row["port"],
            "depth": depth,
            "uri": f"/page/{i}?d={depth}",
        }
        for i, row in enumerate(connected)
        for depth in ((1, 2) if i in (4, 11) else (1,))
    ]
    return connected, requests


def test_the_port_of_a_connection_is_no_id_of_a_request_but_its_uid_and_depth_are(tmp_path: Path) -> None:
    found = told(tmp_path, *connections(), names=("conn", "http"))
    assert isinstance(found, Guess)
    assert (found.primary_id, found.foreign_key) == (("uid",), ("uid",))
    assert found.foreign_id == ("uid", "depth")
    assert "depth counts the records of each uid, 2 of which have several" in " ".join(
        map(str, found.findings)
    )


def test_without_a_column_that_counts_the_requests_of_a_connection_it_asks(tmp_path: Path) -> None:
    connected, requests = connections()
    without = [{name: value for name, value in row.items() if name != "depth"} for row in requests]
    (question,) = asked(told(tmp_path, connected, without))
    assert question.options == ("--foreign-id",)
    assert ("uid,uri",) in question.choices


def test_logs_in_the_wrong_order_are_told(tmp_path: Path) -> None:
    connected, requests = connections()
    (question, *_) = asked(told(tmp_path, requests, connected, names=("http", "conn")))
    assert question.options == ("--foreign-key", "--primary-id")
    assert "Both logs may be named in the wrong order" in question.why


def asked(found: Guess | tuple[OpenQuestion, ...]) -> tuple[OpenQuestion, ...]:
    assert not isinstance(found, Guess), found
    return found


def hashed(i: int) -> str:
    return random.Random(i).randbytes(16).hex()


def ulid(i: int) -> str:
    return "01HQ" + "".join(random.Random(i).choices(CROCKFORD, k=22))


IDS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "UUIDs": ("conversion", lambda i: str(uuid.UUID(int=random.Random(i).getrandbits(128), version=4))),
    "hashes": ("conversion", hashed),
    "ULIDs": ("conversion", ulid),
    "snowflakes": ("click_id", lambda i: SNOWFLAKE + i * 4_194_304),
    "snowflakes in text": ("eventId", lambda i: str(SNOWFLAKE + i * 4_194_304)),
    "integers of ten digits that could be seconds": ("click_id", lambda i: BEGIN_S + 7 * i),
    "message ids": ("message_id", lambda i: f"{hashed(i)[:12]}.{i}@mail.example.org"),
    "short texts that are called so": ("click_id", lambda i: f"c{i}"),
    "camel case": ("clickId", lambda i: f"c{i}"),
    "numbers of a form": ("Antwort-Nr", lambda i: f"B{i:05}"),
    "Photon's own ids": ("event_id", lambda i: f"10.0.0.{i % 3}:4711:{BEGIN_S * 10**6 + i}"),
}


@pytest.mark.parametrize("kind", IDS)
def test_a_column_that_is_unique_and_looks_like_an_id_is_proposed(tmp_path: Path, kind: str) -> None:
    name, value = IDS[kind]
    found = told(
        tmp_path,
        queries(),
        foreign(**{name: value, "rank": lambda i: i % 9, "session_id": lambda i: f"s{i // 7}"}),
    )
    assert isinstance(found, Guess), found
    assert found.foreign_id == (name,)
    assert (found.foreign_key, found.foreign_time.columns) == (("query_id",), ("at",))


NO_IDS: dict[str, Callable[[int], Any]] = {
    "duration": lambda i: round(0.001 * (i * i + 1), 6),
    "duration_text": lambda i: f"{i + 1}.5ms",
    "elapsed": lambda i: f"00:{i // 60:02}:{i % 60:02}.{i:03}",
    "file": lambda i: f"report-{i}.pdf",
    "path": lambda i: f"/var/log/app/{i}",
    "url": lambda i: f"https://example.org/a?n={i}",
    "tags": lambda i: [i, i + 1],
    "request": lambda i: {"number": i},
    "seq": lambda i: (65_500 + i) % 65_536,
    "counter_id": lambda i: (250 + i) % 256,
    "packet_id": lambda i: (2**24 - 60 + i) % 2**24,
    "port": lambda i: 30_000 + 7 * i,
    "bytes": lambda i: 5_000_000 + 977 * i,
    "title": lambda i: f"The story number {i}",
    "ip": lambda i: f"10.1.{i // 250}.{i % 250}",
    "score": lambda i: f"{i}.25",
    "is_new": lambda i: i == 0,
    "logged_at": lambda i: f"2026-01-05T11:{i // 60:02}:{i % 60:02}Z",
    "updated": lambda i: BEGIN_S * 1000 + i,
    "session_id": lambda i: f"s-{hashed(i)}",
    "user_id": lambda i: 10_000_000 + 17 * i,
    "content_sha256": hashed,
    "version": lambda i: f"1.{i}.0",
}


@pytest.mark.parametrize("name", NO_IDS)
def test_what_is_unique_and_no_id_is_never_proposed(tmp_path: Path, name: str) -> None:
    found = told(
        tmp_path, queries(), foreign(**{name: NO_IDS[name], "rank": lambda i: i % 9}), foreign_time=("at",)
    )
    (question,) = asked(found)
    assert question.options == ("--foreign-id",)


def test_all_of_them_beside_an_id_leave_the_id_alone(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        queries(),
        foreign(**NO_IDS, click_id=lambda i: f"c{i}"),
        ("q", "clicks"),
        foreign_time=("at",),
    )
    assert isinstance(found, Guess), found
    assert found.foreign_id == ("click_id",)


def test_of_two_ids_the_one_that_is_called_like_its_log_is_taken_and_else_it_asks(tmp_path: Path) -> None:
    rows = foreign(impression_id=lambda i: f"i{i}", click_id=lambda i: f"c{i}")
    found = told(tmp_path, queries(), rows, ("queries", "ad-clicks"))
    assert isinstance(found, Guess)
    assert found.foreign_id == ("click_id",)
    (question,) = asked(told(tmp_path, queries(), rows))
    assert question.choices == (("impression_id",), ("click_id",))


def test_messages_that_each_partition_counts_have_an_id_of_partition_and_offset(tmp_path: Path) -> None:
    rows = foreign(topic=lambda _: "acks", partition=lambda i: i % 4, offset=lambda i: 501 + i // 4)
    found = told(tmp_path, queries(), rows)
    assert isinstance(found, Guess), found
    assert found.foreign_id == ("partition", "offset")


def test_a_column_that_is_always_the_same_makes_no_id_with_a_counter(tmp_path: Path) -> None:
    (question,) = asked(told(tmp_path, queries(), foreign(host=lambda _: "web", number=lambda i: i)))
    assert question.options == ("--foreign-id",)


def test_a_rank_that_differs_by_chance_within_each_query_counts_nothing(tmp_path: Path) -> None:
    rank = {(q, n): r for q in range(60) for n, r in enumerate(random.Random(q).sample(range(1, 30), 2))}
    rows = foreign(rank=lambda i: rank[i % 60, i // 60])
    (question,) = asked(told(tmp_path, queries(), rows))
    assert ("query_id,rank",) in question.choices


def test_a_key_that_is_unique_is_offered_as_the_id_and_not_taken(tmp_path: Path) -> None:
    (question,) = asked(told(tmp_path, queries(), foreign(60)))
    assert question.choices == (("query_id",),)
    assert "has each primary event one foreign event at most?" in question.why


def test_records_that_were_logged_twice_do_not_make_an_id_doubtful(tmp_path: Path) -> None:
    rows = foreign(click_id=lambda i: f"c{i}")
    found = told(tmp_path, queries(), [*rows, *rows[:30]])
    assert isinstance(found, Guess), found
    assert found.foreign_id == ("click_id",)


def test_an_id_that_two_different_records_share_is_asked_for(tmp_path: Path) -> None:
    rows = foreign(click_id=lambda i: f"c{min(i, 118)}")
    (question,) = asked(told(tmp_path, queries(), rows))
    assert "of 120, 1 record has the click_id of an earlier one and other content" in question.why


def test_a_choice_of_an_id_that_comes_again_says_how_often_and_that_rows_are_missing(tmp_path: Path) -> None:
    """Broken variant: two columns alone are offered, as if no column were an id."""
    rows = foreign(2_000, click_id=lambda i: f"c{i - 17 if i % 20 == 19 else i}")
    (question,) = asked(told(tmp_path, queries(), rows))
    assert question.choices == (("query_id,click_id",), ("query_id,at",), ("click_id",))
    assert "of 2,000, 100 records have the click_id of an earlier one and other content" in question.why
    assert "With click_id alone as the id, such a record has no row" in question.why


def test_a_session_that_has_several_events_is_no_choice_of_an_id(tmp_path: Path) -> None:
    (question,) = asked(told(tmp_path, queries(), foreign(session_id=lambda i: f"s{i // 20 * 19 + i % 19}")))
    assert ("session_id",) not in question.choices


def test_each_key_that_is_offered_says_how_often_its_primary_id_comes_again(tmp_path: Path) -> None:
    rows = [row | {"request": f"r{row['query_id']}"} for row in queries(400, lambda i: f"q{max(i, 2)}")]
    clicks = [{"click_id": f"c{i}", "at": BEGIN_S + i} | row for i, row in enumerate(rows)]
    for row in clicks:
        del row["time"], row["text"]
    (question,) = asked(told(tmp_path, rows, clicks))
    assert question.choices == (("query_id", "query_id"), ("request", "request"))
    for name in ("query_id", "request"):
        assert f"of 400, 2 records have the {name} of an earlier one and other content" in question.why


def test_lines_without_an_id_do_not_make_it_doubtful_and_many_of_them_do(tmp_path: Path) -> None:
    rows = foreign(click_id=lambda i: None if i % 20 == 0 else f"c{i}")
    assert isinstance(told(tmp_path, queries(), rows), Guess)
    rows = foreign(click_id=lambda i: None if i % 2 else f"c{i}")
    asked(told(tmp_path, queries(), rows))


def test_small_integers_that_are_called_an_id_are_offered_and_not_taken(tmp_path: Path) -> None:
    (question,) = asked(told(tmp_path, queries(), foreign(id=lambda i: i + 1, total=lambda i: i * 1.5)))
    assert question.choices == (("id",),)
    assert "id has small integers" in question.why


def test_an_id_that_many_records_lack_is_told(tmp_path: Path) -> None:
    rows = foreign(click_id=lambda i: f"c{i}" if i % 3 else None)
    (question,) = asked(told(tmp_path, queries(), rows))
    assert "click_id is missing in 40 of 120 records" in question.why


def test_one_record_and_few_of_them_prove_no_id(tmp_path: Path) -> None:
    (question,) = asked(
        told(tmp_path, queries(), foreign(1, click_id=lambda i: f"c{i}"), ("queries", "clicks"))
    )
    assert ("click_id",) in question.choices
    (question,) = asked(told(tmp_path, queries(), foreign(8, impression_id=lambda i: f"c{i}")))
    assert "in a sample of 8 it may be so by chance" in question.why
    assert isinstance(
        told(tmp_path, queries(), foreign(8, click_id=lambda i: f"c{i}"), ("q", "clicks")), Guess
    )


# -- the key and the primary's id


def test_integers_of_64_bits_are_ids_and_no_times(tmp_path: Path) -> None:
    tweets = [{"tweet_id": SNOWFLAKE + i * 10**12, "ts": BEGIN_S + i} for i in range(40)]
    likes = [
        {"like_id": SNOWFLAKE + i, "tweet_id": SNOWFLAKE + i % 40 * 10**12, "ts": BEGIN_S + i}
        for i in range(90)
    ]
    found = told(tmp_path, tweets, likes)
    assert isinstance(found, Guess), found
    assert (found.primary_id, found.foreign_key) == (("tweet_id",), ("tweet_id",))
    assert (found.foreign_id, found.foreign_time.columns, found.primary_time.columns) == (
        ("like_id",),
        ("ts",),
        ("ts",),
    )


@pytest.mark.parametrize("other", ["in_reply_to", "tweet_ref", "tweet", "tweetId"])
def test_integers_of_64_bits_that_another_name_has_in_the_other_log_meet_too(
    tmp_path: Path, other: str
) -> None:
    tweets = [{"tweet_id": SNOWFLAKE + i * 10**12, "when": BEGIN_S + i} for i in range(40)]
    likes = [{"id": f"l{i}", other: SNOWFLAKE + i % 40 * 10**12, "when": BEGIN_S + i} for i in range(90)]
    found = told(tmp_path, tweets, likes)
    assert isinstance(found, Guess), found
    assert (found.primary_id, found.foreign_key) == (("tweet_id",), (other,))


def test_times_that_both_logs_have_are_no_key(tmp_path: Path) -> None:
    tweets = [{"id": f"t{i}", "ts": BEGIN_S + i} for i in range(60)]
    likes = [{"like_id": f"l{i}", "post": f"t{i % 60}", "ts": BEGIN_S + i} for i in range(60)]
    found = told(tmp_path, tweets, likes)
    assert isinstance(found, Guess), found
    assert (found.primary_id, found.foreign_key) == (("id",), ("post",))


def test_small_integers_are_a_key_only_by_their_names(tmp_path: Path) -> None:
    searched = [{"id": i, "user": i % 3, "time": BEGIN_S + i} for i in range(60)]
    clicked = [
        {"click_id": f"c{i}", "query_id": i % 60, "rank": i % 9, "time": BEGIN_S + i} for i in range(90)
    ]
    found = told(tmp_path, searched, clicked, ("queries", "clicks"))
    assert isinstance(found, Guess), found
    assert (found.primary_id, found.foreign_key) == (("id",), ("query_id",))
    unnamed = [
        {"click_id": row["click_id"], "of": row["query_id"], "rank": row["rank"], "time": row["time"]}
        for row in clicked
    ]
    assert asked(told(tmp_path, searched, unnamed))[0].options == ("--foreign-key", "--primary-id")


def test_a_number_that_the_other_log_names_by_its_own_name_is_the_key(tmp_path: Path) -> None:
    pulls = [{"id": 1_900_000_000 + i, "number": 300 + i, "created_at": BEGIN_S + i} for i in range(60)]
    reviews = [
        {"id": 2_500_000_000 + i, "pull_number": 300 + i % 60, "submitted_at": BEGIN_S + i} for i in range(90)
    ]
    found = told(tmp_path, pulls, reviews, ("pulls", "reviews"))
    assert isinstance(found, Guess), found
    assert (found.primary_id, found.foreign_key, found.foreign_id) == (("number",), ("pull_number",), ("id",))


def test_integers_that_both_logs_have_under_other_names_are_told_and_asked_for(tmp_path: Path) -> None:
    orders = [{"number": 1_000_000 + i * 7, "time": BEGIN_S + i} for i in range(60)]
    payments = [
        {"payment_id": f"p{i}", "belongs_to": 1_000_000 + i * 7, "at": BEGIN_S + i} for i in range(50)
    ]
    (question,) = asked(told(tmp_path, orders, payments))
    assert "100% of the values of belongs_to in the foreign log are values of number" in str(question)
    assert "no column of the foreign log holds" not in str(question)
    assert ("belongs_to", "number") in question.choices


def test_texts_with_blanks_are_a_key_where_both_logs_call_them_the_same_id(tmp_path: Path) -> None:
    """Broken variant: equal names "do not say that they belong together"."""

    def logs(name: str) -> tuple[list[Row], list[Row]]:
        searches = [{name: f"search {i * 17} x", "time": BEGIN_S + i} for i in range(60)]
        clicks = [{"click_id": f"c{i}", name: f"search {i * 17} x", "time": BEGIN_S + i} for i in range(60)]
        return searches, clicks

    found = told(tmp_path, *logs("search_id"))
    assert isinstance(found, Guess), found
    assert (found.primary_id, found.foreign_key) == (("search_id",), ("search_id",))
    (question,) = asked(told(tmp_path, *logs("words")))
    assert "They are texts with blanks, so that it may be by chance" in str(question)
    assert question.choices[0] == ("words", "words")


def test_columns_without_names_are_no_key_because_they_lie_in_the_same_place(tmp_path: Path) -> None:
    for name, first, second in (("a", 10**9, BEGIN_S), ("b", 2 * 10**9, 10**9)):
        rows = [f"{first + i * 17}\t{second + i * 17}\n" for i in range(60)]
        (tmp_path / f"{name}.tsv").write_text("".join(rows))
    places = where_of(*(str(tmp_path / f"{name}.tsv") for name in "ab"))
    samples = read_sample("primary", places[0]), read_sample("foreign", places[1])
    question, *_ = asked(guess(*samples, Answers()))
    assert question.choices == (("column_2", "column_1"),)


def test_the_same_names_in_both_logs_are_told_apart_by_their_values(tmp_path: Path) -> None:
    searched = [{"id": f"q{i}", "session_id": f"s{i // 5}", "time": BEGIN_S + i} for i in range(60)]
    clicked = [
        {"id": f"c{i}", "session_id": f"s{i % 60 // 5}", "query": f"q{i % 60}", "time": BEGIN_S + i}
        for i in range(90)
    ]
    found = told(tmp_path, searched, clicked, ("queries", "clicks"))
    assert isinstance(found, Guess), found
    assert (found.primary_id, found.foreign_key, found.foreign_id) == (("id",), ("query",), ("id",))


def test_two_keys_that_both_fit_are_asked_for(tmp_path: Path) -> None:
    served = [{"request_id": f"r{i}", "trace_id": f"t{i}", "time": BEGIN_S + i} for i in range(60)]
    errors = [
        {"error_id": f"e{i}", "request_id": f"r{i % 60}", "trace_id": f"t{i % 60}", "time": BEGIN_S + i}
        for i in range(90)
    ]
    (question, *_) = asked(told(tmp_path, served, errors))
    assert set(question.choices) == {("request_id", "request_id"), ("trace_id", "trace_id")}


def test_columns_that_are_an_id_only_together_are_found_in_both_logs(tmp_path: Path) -> None:
    served = [{"host": f"web-{i % 3}", "number": i // 3, "time": BEGIN_S + i} for i in range(60)]
    errors = [
        {"error_id": f"e{i}", "host": f"web-{i % 3}", "number": i % 60 // 3, "time": BEGIN_S + i}
        for i in range(90)
    ]
    found = told(tmp_path, served, errors)
    assert isinstance(found, Guess), found
    assert found.primary_id == found.foreign_key == ("host", "number")
    assert found.foreign_id == ("error_id",)


TIMES: dict[str, tuple[Callable[[int], Any], str]] = {
    "ts": (lambda i: BEGIN_S + i, "s"),
    "time": (lambda i: BEGIN_S * 10**3 + i, "ms"),
    "@timestamp": (lambda i: f"2026-01-05T10:00:{i % 60:02}.5Z", "iso8601"),
    "event_time": (lambda i: BEGIN_S * 10**6 + i, "us"),
    "t": (lambda i: BEGIN_S * 10**9 + i, "ns"),
    "start": (lambda i: BEGIN_S + i + 0.25, "s"),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_are_known_by_their_values_and_their_units_too(tmp_path: Path, name: str) -> None:
    value, unit = TIMES[name]
    rows = [
        {"click_id": f"c{i}", "query_id": f"q{i % 60}", name: value(i), "arrived": BEGIN_S + i}
        for i in range(90)
    ]
    found = told(tmp_path, queries(), rows)
    assert isinstance(found, Guess), found
    assert (found.foreign_time.columns, found.foreign_time.unit) == ((name,), unit)


MIXED: dict[str, tuple[Callable[[int], Any], str]] = {
    "text and seconds": (lambda i: f"2026-01-05T10:00:{i:02}Z" if i % 5 else str(BEGIN_S + i), "iso8601"),
    "text and milliseconds": (lambda i: f"2026-01-05T10:00:{i:02}Z" if i % 5 else str(BEGIN_S * 1000), "ms"),
    "mostly seconds": (lambda i: "Mon, 05 Jan 2026 10:00:00 GMT" if i % 5 == 0 else str(BEGIN_S), "iso8601"),
}


@pytest.mark.parametrize("way", MIXED)
def test_times_as_text_and_as_numbers_in_one_column_are_times(tmp_path: Path, way: str) -> None:
    value, unit = MIXED[way]
    rows = [{"click_id": f"c{i:05}", "query_id": f"q{i % 60}", "at": value(i % 60)} for i in range(90)]
    found = told(tmp_path, queries(), rows)
    assert isinstance(found, Guess), found
    assert (found.foreign_time.columns, found.foreign_time.unit) == (("at",), unit)


def test_a_unit_is_asked_for_only_where_a_unit_helps(tmp_path: Path) -> None:
    rows = foreign(click_id=lambda i: f"c{i}", when=lambda i: f"day {i}", n=lambda i: 40_000_000 + i)
    (question,) = asked(told(tmp_path, queries(), rows, foreign_time=("when",)))
    assert question.options == ("--foreign-time",)
    assert "unit" not in str(question)
    (question,) = asked(told(tmp_path, queries(), rows, foreign_time=("n",)))
    assert question.options == ("--foreign-unit",)


def test_times_without_a_zone_are_told_to_count_as_utc(tmp_path: Path) -> None:
    for zone, told_so in (("", True), ("Z", False), ("+01:00", False), (" UTC", False)):
        rows = foreign(click_id=lambda i: f"c{i}", when=lambda i, z=zone: f"2026-01-05T10:00:{i % 60:02}{z}")
        found = told(tmp_path, queries(), rows, foreign_time=("when",))
        assert isinstance(found, Guess)
        assert ("count as UTC" in str(found.findings[-1])) == told_so


def test_where_the_only_time_is_taken_for_a_key_it_is_offered(tmp_path: Path) -> None:
    rows = [{"click_id": f"c{i:05}", "received": BEGIN_S + i % 60} for i in range(90)]
    primaries = [{"received": BEGIN_S + i, "at": BEGIN_S + i} for i in range(60)]
    said = {"foreign_key": ("received",), "primary_id": ("received",)}
    (question,) = asked(told(tmp_path, primaries, rows, **said))
    assert "the only columns that are times are taken for ids or keys" in question.why
    assert question.choices == (("received",),)


def test_all_that_is_not_sure_is_asked_at_once(tmp_path: Path) -> None:
    rows = [
        {
            "view_id": f"v{i:05}",
            "open_id": f"o{i:05}",
            "first": f"q{i % 60}",
            "last": f"q{(i + 7) % 60}",
            "n": i % 7,
        }
        for i in range(90)
    ]
    options = [question.options[0] for question in asked(told(tmp_path, queries(), rows))]
    assert options == ["--foreign-key", "--foreign-id", "--foreign-time"]
