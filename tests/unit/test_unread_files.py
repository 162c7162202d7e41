"""What becomes of an entry of an unread file at the next look; a row of the protocol's table each (D11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from photon.logs import unread_files
from photon.logs.discovery import FoundFile, GlobbedPaths, Scan
from photon.logs.unread_files import SeenFiles, UnreadFile, bounded, follow

BAD = UnreadFile("foreign", "a.log", "file", 7, 100, 5, 5, b"head", "no", 1)
GOOD = FoundFile("a.log", 8, 200, 6, False, 6)


def seen_files(*unread: UnreadFile, found: tuple[FoundFile, ...] = (), **more: Any) -> SeenFiles:
    shown = {"is_shown": lambda path: True, "is_match": GlobbedPaths("*.log").match, **more}
    return SeenFiles(unread, Scan(found, folders=frozenset({""})), **shown)


def after(*looks: SeenFiles, before: UnreadFile = BAD) -> tuple[UnreadFile, ...]:
    entries: tuple[UnreadFile, ...] = (before,)
    for now_us, each in enumerate(looks, 10):
        entries, _ = follow(entries, each, now_us)
    return entries


def entry_of(name: str) -> UnreadFile:
    """An entry of a file of its own."""
    return replace(BAD, path=name, inode=ord(name))


def because(seen: SeenFiles, before: UnreadFile = BAD) -> str:
    ((ended),) = follow([before], seen, 10)[1]
    return ended.because


def test_what_nothing_accounts_for_has_an_entry_at_once() -> None:
    assert follow((), seen_files(BAD), 10) == ((BAD,), ())


def test_an_entry_keeps_the_time_of_its_first_sight() -> None:
    now = replace(BAD, size_bytes=120, since_us=10)
    assert after(seen_files(now)) == (replace(now, since_us=1, grown_us=10),)


def test_an_entry_ends_when_its_file_is_read_where_it_is_or_where_it_was_moved() -> None:
    read = FoundFile("a.log", BAD.inode, 300, 9, False)
    assert because(seen_files(found=(read,))) == "read"
    moved = replace(read, path="b.log")
    assert because(seen_files(found=(moved,), head_of=lambda found: b"head")) == "read"


def test_an_inode_that_is_used_again_ends_no_entry() -> None:
    other = FoundFile("b.log", BAD.inode, 300, 9, False)
    (entry,) = after(seen_files(found=(other,), head_of=lambda found: b"another"))
    assert entry.state == "missed"


def test_another_file_that_is_read_at_its_path_replaces_it() -> None:
    assert because(seen_files(found=(GOOD,))) == "replaced"


def test_a_bad_file_that_a_good_one_pushes_on_goes_by_its_inode_first() -> None:
    moved = replace(BAD, path="b.log", since_us=10)
    assert after(seen_files(moved, found=(GOOD,))) == (replace(moved, since_us=1),)


def test_two_bad_files_that_are_renamed_in_a_row_stay_apart() -> None:
    other = replace(BAD, path="b.log", inode=9, since_us=2)
    now = seen_files(replace(BAD, path="b.log"), replace(other, path="c.log"))
    entries, ended = follow([BAD, other], now, 10)
    assert [(one.path, one.inode, one.since_us) for one in entries] == [("b.log", 7, 1), ("c.log", 9, 2)]
    assert ended == ()


def test_another_bad_file_at_its_path_is_another_one_to_acknowledge() -> None:
    (entry,) = after(seen_files(replace(BAD, inode=8)))
    assert entry.since_us == 1
    assert entry.holds({BAD.identity})


def test_a_file_is_gone_when_two_looks_miss_it_and_comes_back_when_it_is_seen() -> None:
    (once,), (twice,) = after(seen_files()), after(seen_files(), seen_files())
    assert (once.state, once.holds(())) == ("missed", True)
    assert (twice.state, twice.holds(())) == ("gone", False)
    assert after(seen_files(BAD), before=twice) == (BAD,)


def test_an_empty_file_that_goes_is_no_loss() -> None:
    assert after(seen_files(), seen_files(), before=replace(BAD, size_bytes=0)) == ()


def test_nothing_is_gone_where_a_disk_may_not_be_mounted() -> None:
    away = seen_files(is_shown=lambda path: False)
    assert after(away, away, away) == (BAD,)


def test_a_pattern_that_names_it_no_more_ends_its_entry_without_a_loss() -> None:
    assert because(seen_files(is_match=lambda path: False)) == "not matched any more"


def test_a_loss_stays_when_another_file_takes_the_path() -> None:
    gone = replace(BAD, state="gone")
    assert after(seen_files(found=(GOOD,)), before=gone) == (gone,)
    again = seen_files(found=(GOOD,), head_of=lambda found: b"head")
    assert because(again, before=gone) == "replaced"


def test_a_folder_that_can_be_listed_again_ends_its_entry() -> None:
    folder = replace(BAD, path="sub", kind="folder")
    assert after(seen_files(folder), before=folder) == (folder,)
    listed = SeenFiles((), Scan(folders=frozenset({"", "sub"})))
    assert because(listed, before=folder) == "read"


def test_a_clock_that_is_set_back_does_not_make_an_entry_younger() -> None:
    (entry,) = after(seen_files(replace(BAD, since_us=10)), before=replace(BAD, since_us=99))
    assert entry.since_us == 10


def test_an_acknowledgement_is_of_one_size_and_time_and_a_copy_in_the_making_holds_nothing() -> None:
    assert not BAD.holds({BAD.identity})
    assert replace(BAD, changed_ns=6).holds({BAD.identity})
    assert not replace(BAD, is_copy_so_far=True).holds(())


def test_beyond_the_bound_all_hold_as_one_entry_that_says_how_many_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread_files, "MOST_ENTRIES", 2)
    before = (entry_of("c"), entry_of("d"))
    entries, over = bounded([entry_of(name) for name in "abcd"], before, frozenset())
    assert [one.path for one in entries] == ["", "c", "d"]
    assert "2 more files are not read" in entries[0].reason
    assert (entries[0].size_bytes, entries[0].holds(()), over) == (2 * BAD.size_bytes, True, ())
    again, _ = follow(entries, SeenFiles(tuple(entry_of(name) for name in "abcd")), 9)
    assert [one.path for one in again] == ["a", "b", "c", "d"]


def test_a_loss_beyond_the_bound_ends_so_that_it_is_counted_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread_files, "MOST_ENTRIES", 1)
    gone = replace(entry_of("b"), state="gone")
    entries, over = bounded([entry_of("a"), gone], [entry_of("a")], frozenset())
    assert ([one.path for one in entries], over) == (["a"], (gone,))


def test_of_losses_that_a_person_knows_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_files, "MOST_KEPT_GONE", 1)
    old, new = (replace(entry_of(name), state="gone", since_us=us) for name, us in (("a", 1), ("b", 2)))
    known = frozenset((old.identity, new.identity))
    assert bounded([old, new], [], known) == ((new,), (old,))
    assert bounded([old, new], [], frozenset()) == ((old, new), ())
