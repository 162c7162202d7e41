"""The product without one of its rules: what stands in its place, and by what it is to be noticed.

python -m tests.simulation.whole.variants [NAME ...]    # the first seed that notices each, and how
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq

from photon.dispatcher.claiming_rounds import ClaimingRounds
from photon.dispatcher.committing import Committing
from photon.dispatcher.dispatcher import Dispatcher
from photon.join import deciding
from photon.join.deciding import JoinDecisions
from photon.registry.errors import RegistryUnavailable
from photon.registry.lookups import Hold
from photon.registry.opening import open_registry
from photon.registry.view_store import VIEW_FILE
from photon.releases.making import next_release
from photon.state.lifecycle import Event
from photon.state.outcomes import JoinVerdict
from photon.storage.output_files import OutputFile
from photon.storage.tables import FENCED_TABLES, OutputTable
from photon.unmatched.deciding import why_all
from tests.simulation.whole.copies import RESTORED
from tests.simulation.whole.simulation import problem_or_error
from tests.simulation.whole.unmatched import UNMATCHED

SEEDS = 400  # within 200 each is noticed today, most within ten
WORDS_TOLD = 70


@dataclass(frozen=True)
class Variant:
    """One rule left out: attributes by their full names, and what stands there instead."""

    rule: str
    replaced: Mapping[str, Any]
    because: str  # words of the finding
    focus: tuple[str, ...] = ()  # faults that happen; empty: the seed decides

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Leave the rule out."""
        with ExitStack() as stack:
            for name, replacement in self.replaced.items():
                stack.enter_context(mock.patch(name, replacement))
            yield


TABLE, COMMITTING = "photon.storage.tables.OutputTable", "photon.dispatcher.committing.Committing"
COUNTER = "photon.releases.parts.LakeCounter"
DECISIONS = "photon.join.deciding.JoinDecisions"
WATCH = "photon.dispatcher.recovery.registry_watch.RegistryWatch"
_open_registry = open_registry
_commit, _write = OutputTable.commit, OutputTable._write
_undecided = JoinDecisions.undecided
_finish_earlier_work = Dispatcher._finish_earlier_work
_commit_batch, _claim = Committing.commit_batch, ClaimingRounds._claim


def _commit_none_without_rows(
    self: Any, files: Any, app: str, batch: int, exactly_after: Any, plan_id: Any = None, **more: Any
) -> None:
    if files or not batch or self.name != "joined_events":
        _commit(self, files, app, batch, None if batch else exactly_after, plan_id, **more)


def _write_on_a_fresh_handle(self: Any, handle: Any, *what: Any) -> None:
    _write(self, self.load(), *what)


def _commit_all_files_of_the_batch(self: Any, plan: Any, results: Any) -> None:
    folder = self.tables["joined_events"].folder
    listed = [
        OutputFile(
            "joined_events", str(path.relative_to(folder)), path.stat().st_size, rows.num_rows, rows.schema
        )
        for path in sorted(folder.glob(f"*/batch-{plan.key.batch}-*.parquet"))
        for rows in [pq.ParquetFile(path).read()]
    ]
    files = results.files
    results.files = lambda table: listed if table == "joined_events" else files(table)
    _commit_batch(self, plan, results)


def _unanswered_is_won(self: Any, claims: Any) -> Any:
    try:
        return _claim(self, claims)
    except RegistryUnavailable:
        return np.ones(len(claims), bool)


def _holds_are_joins() -> Any:
    verdicts = deciding._VERDICT_OF.copy()
    verdicts[Hold.ELSEWHERE] = JoinVerdict.JOINED_ELSEWHERE
    return verdicts


def _with_no_view(pipeline: Any, datacenter: str, *more: Any) -> Any:
    (pipeline.datacenters[datacenter].state / VIEW_FILE).unlink(missing_ok=True)
    return _open_registry(pipeline, datacenter, *more)


def the_leader_decides(self: Any) -> Any:
    """Replace `JoinDecisions.undecided`: the first record of an id decides for all of them."""
    rows = _undecided(self)
    for row, leader in zip(rows, self.events.leaders[self.events.of(rows)], strict=True):
        self.verdicts.of[row] = self.verdicts.of[leader]
        if leader in self.verdicts.notes:
            self.verdicts.notes[int(row)] = self.verdicts.notes[int(leader)]
    return rows[:0]


def _forget_the_open_plan(self: Any, mode: Any) -> bool:
    with self.state._transaction() as db:
        db.execute("DELETE FROM plan")
    return _finish_earlier_work(self, mode)


def _all_of_it(order: Any, *_: Any) -> Any:
    return list(order.records), []


def _of_a_late_count(self: Any, sight: Any, last: Any) -> Any:
    return next_release(replace(sight, last=last), self.clock.now_us())


def _of_this_epoch(before: Any, epoch: int, version: int, *known: Any) -> str:
    return why_all(before and replace(before, epoch=epoch, run=version), epoch, version, *known)


def _by_time_alone(self: Any, places: Any) -> Any:
    is_later = places.times_us >= (-(2**63) if self.from_us is None else self.from_us)
    return self.are_due(places.files, places.times_us) & is_later


def _as_counted(last: Any, counted: Any) -> Any:
    return {**last.parts, **{name: one.part for name, one in counted.items()}}


VARIANTS: dict[str, Variant] = {
    "all plans have one name": Variant(
        "A1",
        {
            "photon.dispatcher.dispatcher.new_id": lambda: "0" * 12,
            "photon.dispatcher.ahead.new_id": lambda: "0" * 12,
        },
        "F",
        ("kill", "copy_state", "clone", "restore_state"),
    ),
    "a batch is committed on another handle than was checked": Variant(
        "A3", {f"{TABLE}._write": _write_on_a_fresh_handle}, "F7", ("copy_state", "clone", "clone")
    ),
    "an empty batch does not commit": Variant("A4", {f"{TABLE}.commit": _commit_none_without_rows}, "F7"),
    "a claim without an answer counts as won": Variant(
        "A5",
        {"photon.dispatcher.claiming_rounds.ClaimingRounds._claim": _unanswered_is_won},
        "F",
        ("cut_off", "registry_away"),
    ),
    "a second round is not run": Variant(
        "L2",
        {
            "photon.dispatcher.claiming_rounds.ClaimingRounds._claim": lambda self, claims: (
                _claim(self, claims) | True
            )
        },
        "F",
    ),
    "a commit without an answer counts as none": Variant(
        "A6", {f"{COMMITTING}.ask_table": lambda self, plan: (Event.NOT_COMMITTED, "")}, "F13"
    ),
    "a commit without an answer counts as done": Variant(
        "A6", {f"{COMMITTING}.ask_table": lambda self, plan: (Event.HAS_COMMITTED, "")}, "F"
    ),
    "the first record of an id decides for all of them": Variant(
        "A9", {f"{DECISIONS}.undecided": the_leader_decides}, "F13"
    ),
    "whatever lies in the folder is committed": Variant(
        "A10",
        {f"{COMMITTING}.commit_batch": _commit_all_files_of_the_batch},
        "F1",
        ("kill", "cut_off", "fill_disk"),
    ),
    "a close frees nothing": Variant(
        "A7",
        {"photon.registry.closing._frees": lambda *_: iter(())},
        "F",
        ("lose_worker", "die_and_lose_log", "lose_state", "kill"),
    ),
    "what an earlier plan holds without a row counts as joined": Variant(
        "A8",
        {"photon.dispatcher.table_answers.TableAnswers._may_free": lambda self, records: ()},
        "F13",
        ("remove_a_row", "kill", "lose_state"),
    ),
    "a plan that was left open is forgotten": Variant(
        "A2",
        {"photon.dispatcher.dispatcher.Dispatcher._finish_earlier_work": _forget_the_open_plan},
        "F",
        ("kill", "die_and_lose_log"),
    ),
    "what can't be carried out does not come again": Variant(
        "A11", {"photon.dispatcher.batch.split": lambda *_: []}, "F11", ("lose_worker",)
    ),
    "any start goes on in its epoch": Variant(
        "A13",
        {"photon.dispatcher.startup.why_new_epoch": lambda *_: None},
        "F",
        ("copy_state", "restore_state"),
    ),
    "a hold counts as a join": Variant(
        "A16",
        {"photon.join.deciding._VERDICT_OF": _holds_are_joins()},
        "F13",
        ("kill", "lose_state", "retire"),
    ),
    "an epoch is ended without a fence": Variant(
        "E1", {f"{TABLE}.fence": lambda self, app: None}, "F", ("freeze_with_claims",)
    ),
    "a datacenter that is given up is not retired first": Variant(
        "E2",
        {"photon.upkeep.retire.with_given_up": lambda register, *_: register},
        "F",
        ("retire", "freeze"),
    ),
    "logs are known by their names alone": Variant(
        "D1",
        {
            "photon.logs.tailing.contents.Contents.same_content": lambda self, look, found, file: (
                found.path == file.file.path
            )
        },
        "F",
        ("lose_log",),
    ),
    "what nobody saw of a log that went counts as nothing": Variant(
        "D9",
        {"photon.logs.tailing.unknown_ends.Ends.went_in_use": lambda *known: False},
        "records",
        ("move_log_away",),
    ),
    "nobody sees to what a silent one holds": Variant(
        "E6",
        {
            "photon.dispatcher.recovery.holders.OtherEpochs.tend": lambda self, count_held: False,
            "photon.dispatcher.recovery.holders.OtherEpochs.wait_for_others": property(lambda self: True),
        },
        "F13",
        ("kill",),
    ),
    "nobody takes orders": Variant(
        "E4",
        {"photon.dispatcher.dispatcher.Dispatcher._take_order": lambda self, now_us: False},
        "F13",
        ("remove_a_row",),
    ),
    "nobody looks whether the registry has the rows": Variant(
        "A23",
        {
            f"{WATCH}.check": lambda self: self.registry.catch_up(),
            "photon.dispatcher.shift.run.open_registry": _with_no_view,
        },
        "F1",
        RESTORED,
    ),
    "a refill fences no epoch": Variant(
        "B19",
        {"photon.upkeep.refill._Refill._fence_one": lambda self, table, datacenter, number: None},
        "F",
        RESTORED,
    ),
    "a cut goes back": Variant(
        "R2",
        {
            "photon.dispatcher.releasing.Releasing._made": _of_a_late_count,
            "photon.releases.making._parts": _as_counted,
        },
        "R2",
    ),
    "a lake that was put back counts as it was": Variant(
        "R4",
        {f"{COUNTER}._lost": lambda self, handle, before: "", f"{COUNTER}._changed": lambda *_: ((), "")},
        "R4",
        ("copy_stores", "put_back_lake", "put_back_lake", "put_back_lake"),
    ),
    "what is unmatched already is written again": Variant(
        "U2", {"photon.unmatched.lakes.Lakes.written": lambda self: iter(())}, "U: ", UNMATCHED
    ),
    "a run is fenced by nobody": Variant(
        "U1",
        {
            "photon.unmatched.lakes.Lakes.fence": lambda self, register: None,
            "photon.storage.tables.FENCED_TABLES": tuple(
                name for name in FENCED_TABLES if name != "unmatched"
            ),
        },
        "U: ",
        UNMATCHED,
    ),
    "a late primary is passed over": Variant(
        "U4", {"photon.unmatched.deciding.Selection.among": _by_time_alone}, "U: ", UNMATCHED
    ),
    "positions of any epoch are believed": Variant(
        "U4", {"photon.unmatched.run.why_all": _of_this_epoch}, "U: ", UNMATCHED
    ),
    "an order counts twice": Variant(
        "E4",
        {"photon.dispatcher.taking_orders.still_open": _all_of_it},
        "F",
        ("remove_a_row", "recover"),
    ),
}


def first_seed(variant: Variant, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed that notices the variant, and what it finds; None: none does."""
    others: Counter[str] = Counter()
    with variant.in_force():
        for seed in seeds:
            problem = problem_or_error(seed, variant.focus)
            if problem is not None and variant.because in problem:
                return seed, problem
            if problem is not None:
                others[problem[:WORDS_TOLD]] += 1
    print(f"something else: {dict(others)}")
    return None


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Which seed notices that a rule is left out.")
    parser.add_argument("names", nargs="*", help="of variants; all if none is given")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many to search")
    arguments = parser.parse_args()
    logging.getLogger("photon").setLevel(logging.CRITICAL)
    for name, variant in VARIANTS.items():
        if not arguments.names or name in arguments.names:
            found = first_seed(variant, range(arguments.seeds))
            print(f"{variant.rule} {name}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
