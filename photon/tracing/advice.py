"""Advice on an event that has no row: one sentence for each datacenter, with its command. Pure."""

from __future__ import annotations

from datetime import UTC

from photon.process.pages import page
from photon.state.starting import starts
from photon.tracing.report import DatacenterTrace, RegistryAnswer, Trace


def what_to_do(found: Trace) -> str:
    """How the event gets its row, or why nothing brings one; empty where nothing is to be done."""
    if rows := found.counting_rows:
        if len(rows) > 1:
            return _leave_one_row(found)
        return _take_out_the_row(rows[0][1]["file"], found) if found.contradiction else ""
    if found.registry is not None and found.registry.is_acknowledged:
        return "Nothing: a person has acknowledged that others took its row."
    if found.not_known:
        remedies = (f"{name}: {one.remedy}" for name, one in found.not_known.items())
        return f"Have the joined events read, then trace again. {'. '.join(remedies)}."
    running = {name: one for name, one in found.datacenters.items() if not one.is_retired}
    said = {name: _in_datacenter(name, one, found) for name, one in running.items()}
    sentences = list(dict.fromkeys(sentence for sentence in said.values() if sentence))
    if sentences:
        return " ".join(sentences)
    if found.holder is not None:
        return _bring_back_the_holder(found.holder, found)
    retired = [name for name, one in found.datacenters.items() if one.is_retired and one.records]
    return _move_the_log_of(retired[0]) if retired else _look_for_the_id(found)


def _leave_one_row(found: Trace) -> str:
    """Say how an event with several rows keeps one, as verification does (`duplicate_rows`)."""
    days = {
        (name, f"{at.astimezone(UTC):%Y-%m-%d}")
        for name, row in found.counting_rows
        if (at := row["_event_time"]) is not None
    }
    if not days:  # somebody has altered its rows: a rebuild finds them by their days
        return "Keep copies of the files of its rows for analysis. Then give each its `_event_time` again."
    backfill = f"photon backfill {found.pipeline} -d"
    rebuilds = "; ".join(f"{backfill} {name} --day {day} --rebuild" for name, day in sorted(days))
    return f"Keep copies of the files of its rows for analysis. Then leave one row: {rebuilds}."


def _take_out_the_row(file: str, found: Trace) -> str:
    return (
        f"Keep a copy of {file} for analysis. Then, if its record is in the logs, take the row out of the "
        f"table ({page('docs/operations/backups.md')}, a row that the registry does not know), and have "
        f"the event joined again: photon recover {found.pipeline}."
    )


def _in_datacenter(name: str, one: DatacenterTrace, found: Trace) -> str:
    join, recover = _what_starts(name, found), f"photon recover {found.pipeline} -d {name}"
    waits = [record for record in one.waiting if record.status != "unjoinable"]
    if one.decision == "on hold" and (one.orders or waits or one.records):
        return f"Let datacenter {name} run again: photon resume {found.pipeline} {name}."
    if one.not_written and (one.orders or waits or any(not each.was_read for each in one.records)):
        return f"Datacenter {name} joins it once it may write its tables: {one.not_written}."
    if one.orders:
        return f"Let datacenter {name} take up its work order; if it does not run: {join}."
    if waits:
        return _let_it_wait(waits[0].reason, name, one, found)
    if one.lost:
        again = f"move the state of {name} away, and start it: {join}"
        return f"Put a copy of its log file back under its name, {again}."
    if letters := one.counting_letters:
        if letters[-1].get("event_id") is None:
            mend = f"photon dead-letters {found.pipeline} -d {name} --mend mine:mend"
            return f"Mend its line by a function of yours, such as mend in mine.py: {mend}."
        return f"Mend what it failed on, then have it looked at again: {recover} --dead-letters."
    if one.too_old:
        return "Nothing can be done: ids of its age are forgotten, so it might be joined a second time."
    if one.removed:
        return _join_again_what_was_removed(one.removed[-1]["why"], recover)
    if one.unjoined or one.waiting:
        return _look_for_the_primary(name, one, found, join, recover)
    return _look_again_at(name, one, found) if one.records else ""


def _look_for_the_primary(name: str, one: DatacenterTrace, found: Trace, join: str, recover: str) -> str:
    if any(primary.was_read for primary in one.primaries):
        return f"Have it looked at again, for its primary is there: {recover}."
    if one.primaries:
        return (
            f"Have datacenter {name} read its primary event, which is in the log; it is joined then. If "
            f"{name} does not run: {join}."
        )
    if not found.logs_searched:
        return "Search the logs for its primary event too: leave out --no-logs."
    return f"Nothing, until its primary event is logged. If it is not joined then: {recover}."


def _join_again_what_was_removed(why: str, recover: str) -> str:
    if why == "second row":
        return f"Have its row made again: {recover}."
    if why == "altered id":
        return f"Have the event joined again whose row it was: {recover}."
    return f"Nothing: the adapter decided so. If it should not, mend the adapter, then: {recover}."


def _move_the_log_of(name: str) -> str:
    return f"Put its log file below the logs folder of a datacenter that runs: {name} is retired."


def _let_it_wait(reason: str, name: str, one: DatacenterTrace, found: Trace) -> str:
    runs = f"if datacenter {name} does not run (photon status {found.pipeline}): "
    runs += _what_starts(name, found)
    if reason == "held" and found.holder is not None:
        return _bring_back_the_holder(found.holder, found)
    if reason == "clock":
        return "Check the clock that wrote its time, and foreign.time_unit in the pipeline file."
    if reason == "primary" and not one.primaries:
        return (
            "Nothing, until its primary event is logged; it is given up after retry.unjoinable_after, once "
            "the primary logs are read further than that."
        )
    return f"Nothing, for it is looked at again soon; {runs}."


def _look_again_at(name: str, one: DatacenterTrace, found: Trace) -> str:
    read = [record for record in one.records if record.was_read]
    if not read:
        return f"Have datacenter {name} read it: {_what_starts(name, found)}."
    if all(record.key is None for record in read):
        return "Nothing: without a key it belongs to no primary event. Mend the program that writes the log."
    if drops := [record.outcome for record in read if record.is_dropped]:
        return f"Nothing: {drops[0]}. If it should not, mend the adapter."
    if found.holder is not None:
        return _bring_back_the_holder(found.holder, found)
    return (
        f"Have it found and looked at again: photon recover {found.pipeline} -d {name}; "
        f"photon verify {found.pipeline} says why."
    )


def _bring_back_the_holder(holder: RegistryAnswer, found: Trace) -> str:
    """Advise on an event that somebody holds, and that has no row."""
    name, pipeline = holder.datacenter or "", found.pipeline
    if holder.id_status == "joined":
        if holder.holder_state in ("retired", "lake gone"):
            return f"Have it joined by a datacenter that has its log: photon recover {pipeline}."
        return f"Have its row made again: photon recover {pipeline}, where datacenter {name} runs."
    match holder.holder_state:
        case "silent":
            return (
                f"Start datacenter {name} again: {_what_starts(name, found)}; if it is lost for good: "
                f"photon retire {pipeline} {name}."
            )
        case "on hold":
            return f"Let datacenter {name} run again: photon resume {pipeline} {name}."
        case "live":
            return (
                f"Wait until datacenter {name} has closed its batch; if it does not run (photon status "
                f"{pipeline}): {_what_starts(name, found)}."
            )
    return "Let the other datacenters run: they free what an epoch that is over holds without a row."


def _what_starts(name: str, found: Trace) -> str:
    here = found.datacenters.get(name)
    return (here.started_by if here is not None else "") or starts(found.pipeline, name, last_run="")


def _look_for_the_id(found: Trace) -> str:
    if found.registry is not None and found.registry.id_status == "too old":
        return "Nothing can be done: ids of its age are forgotten."
    if not found.logs_searched:
        return "Search the logs too: leave out --no-logs."
    return (
        f"Check the id, and that its log file is below the logs folder and fits foreign.files: photon status "
        f"{found.pipeline} names files that can't be read."
    )
