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
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.dispatcher.committing import Committing
from photon.dispatcher.dispatcher import Dispatcher
from photon.join.deciding import Decisions
from photon.join.outcomes import Verdict
from photon.registry.interface import ClaimColumns, Fenced, Released, Unknown
from photon.state.lifecycle import Event
from photon.storage.output_files import OutputFile
from photon.storage.tables import OutputTable
from tests.simulation.whole.copies import RESTORED
from tests.simulation.whole.simulation import problem_or_error

SEEDS = 400  # within 200 each is noticed today, most within ten
WORDS_TOLD = 70


@dataclass(frozen=True)
class Variant:
    """One rule left out: attributes by their full names, and what stands there instead."""

    rule: str
    replaced: Mapping[str, Any]
    because: str  # words of the finding
    focus: tuple[str, ...] = ()  # what is to happen; empty: as the seed has it

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Leave the rule out."""
        with ExitStack() as stack:
            for name, replacement in self.replaced.items():
                stack.enter_context(mock.patch(name, replacement))
            yield


TABLE, COMMITTING = "photon.storage.tables.OutputTable", "photon.dispatcher.committing.Committing"
JOINER, RELEASING = "photon.join.joiner.Joiner", "photon.dispatcher.releasing.Releasing"
DECISIONS = "photon.join.deciding.Decisions"
WATCH = "photon.recovery.registry_watch.RegistryWatch"
_commit, _write, _row_status_of = OutputTable.commit, OutputTable._write, OutputTable.row_status_of
_undecided = Decisions.undecided
_finish_earlier_work = Dispatcher._finish_earlier_work
_commit_batch, _decide_on_commit = Committing.commit_batch, Decisions.on_commit


def _commit_none_without_rows(self: Any, files: Any, app: str, batch: int, *more: Any) -> None:
    if files or self.name != "joined_events":
        _commit(self, files, app, batch, None, *more[1:])


def _write_on_a_fresh_handle(self: Any, handle: Any, *what: Any) -> None:
    _write(self, self.load(), *what)


def _commit_all_files_of_the_batch(self: Any, plan: Any, results: Any) -> None:
    folder = self.tables["joined_events"].folder
    listed = [
        OutputFile("joined_events", path.name, path.stat().st_size, rows.metadata.num_rows, rows.schema_arrow)
        for path in sorted(folder.glob(f"batch-{plan.key.batch}-*.parquet"))
        for rows in [pq.ParquetFile(path)]
    ]
    files = results.files
    results.files = lambda table: listed if table == "joined_events" else files(table)
    _commit_batch(self, plan, results)


def _commit_ids_with_unknown_outcomes(self: Any, events: Any) -> Any:
    occurrences = self.records.occurrences(self._leaders(events))
    tokens = pc.binary_join_element_wise(f"{self.context.plan}", occurrences, ":")
    return self.registry.commit(ClaimColumns(self.events.keys(events), tokens))


def _unknown_is_lost(self: Any, event: int, outcome: Any) -> None:
    if isinstance(outcome, Unknown | Released | Fenced):
        self.decide(event, Verdict.JOINED_ELSEWHERE)
    else:
        _decide_on_commit(self, event, outcome)


def the_leader_decides(self: Any) -> Any:
    """What stands for `Decisions.undecided`: the first record of an id decides for all of them."""
    rows = _undecided(self)
    for row, leader in zip(rows, self.events.leaders[self.events.of(rows)], strict=True):
        self.verdicts.of[row] = self.verdicts.of[leader]
        if leader in self.verdicts.notes:
            self.verdicts.notes[int(row)] = self.verdicts.notes[int(leader)]
    return rows[:0]


def _undecided_is_no_row(self: Any, tokens: Any) -> Any:
    status = _row_status_of(self, tokens)
    return {token: "no row" if one == "undecided" else one for token, one in status.items()}


def _forget_the_open_plan(self: Any, mode: Any) -> bool:
    with self.state._transaction() as db:
        db.execute("DELETE FROM plan")
    return _finish_earlier_work(self, mode)


def _all_of_it(order: Any, *_: Any) -> Any:
    return list(order.records), []


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
    "a claim without an answer counts as lost": Variant(
        "A5",
        {
            f"{JOINER}._commit_ids": _commit_ids_with_unknown_outcomes,
            f"{DECISIONS}.on_commit": _unknown_is_lost,
        },
        "F13",
        ("cut_off", "lose_endpoint"),
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
    "rows are not stored before their ids are registered": Variant(
        "A14",
        {
            "photon.dispatcher.releasing.candidate_files": lambda *_: [],
            "photon.join.candidates.own_candidate_files": lambda *_: [],
        },
        "F13",
        ("die_and_lose_log",),
    ),
    "a plan that ends leaves its ids registered": Variant(
        "A7",
        {
            f"{RELEASING}.release_candidates": lambda self, plan: {},
            f"{RELEASING}.release": lambda self, claims: 0,
        },
        "F13",
        ("lose_worker", "die_and_lose_log"),
    ),
    "what an earlier plan holds without a row stays held": Variant(
        "A8",
        {f"{RELEASING}.release_for_others": lambda self, records, claims: set()},
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
        {"photon.join.deciding.is_published": lambda holder, published: True},
        "F13",
        ("kill", "lose_state", "retire"),
    ),
    "what a silent one holds is released without a fence": Variant(
        "E1",
        {f"{TABLE}.fence": lambda self, app: None, f"{TABLE}.row_status_of": _undecided_is_no_row},
        "F",
        ("freeze_with_ids",),
    ),
    "a datacenter that is given up is not retired first": Variant(
        "E2",
        {"photon.upkeep.retire.with_datacenter_given_up": lambda register, *_: register},
        "F",
        ("retire", "freeze"),
    ),
    "a win does not ask for the boundary": Variant(
        "C1",
        {
            "photon.registry.quorum.outcomes.too_old": lambda keys, register: np.zeros(len(keys), bool),
            "photon.registry.quorum.outcomes.is_too_old": lambda key, register: False,
        },
        "F5",
        ("gc", "freeze", "copy_state", "restore_state"),
    ),
    "logs are known by their names alone": Variant(
        "D1",
        {
            "photon.logs.look.Contents.same_content": lambda self, look, found, file: (
                found.path == file.file.path
            )
        },
        "F",
        ("lose_log",),
    ),
    "what nobody saw of a log that went counts as nothing": Variant(
        "D9",
        {"photon.logs.unknown_ends.Ends.went_in_use": lambda *known: False},
        "records",
        ("move_log_away",),
    ),
    "nobody sees to what a silent one holds": Variant(
        "E6",
        {
            "photon.recovery.holders.Holders.tend": lambda self, count_held: False,
            "photon.recovery.holders.Holders.wait_for_others": property(lambda self: True),
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
        {f"{WATCH}.check": lambda self: None, f"{WATCH}._confirm": lambda self: None},
        "F1",
        RESTORED,
    ),
    "a refill ends no epoch": Variant(
        "B19",
        {
            "photon.upkeep.refill.with_refill_begun": lambda register, *_: register,
            "photon.upkeep.refill._Refill._fence": lambda self, datacenter, epoch: None,
        },
        "F",
        RESTORED,
    ),
    "an order counts twice": Variant(
        "E4",
        {"photon.dispatcher.taking_orders.still_open": _all_of_it},
        "F",
        ("remove_a_row", "recover"),
    ),
    "a cleared row never comes back": Variant(
        "E8",
        {f"{DECISIONS}.may_be_made_again": lambda self, event, holder: False},
        "F13",
        ("remove_a_row", "clear"),
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
