"""Settings that have changed since a datacenter's state was begun: refused, or a reason to begin anew (A24).

`photon.pipeline.remembered` says which settings count, and what a change of each means.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from photon.logs.discovery import GlobbedPaths
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.pipeline.remembered import (
    WIDENS,
    ChangedSetting,
    changed_settings,
    remembered_settings,
)
from photon.process.errors import FormatTooNew, UserError
from photon.process.readable import counted
from photon.registry.opening import begin_anew
from photon.state.database import StateReader, StateUnavailable
from photon.state.dispatcher_state import DispatcherState

log = logging.getLogger(__name__)


class SettingsChanged(UserError):
    """A setting that makes ids what they are has another value than the state was begun with."""


def refuse_other_ids(settings: Mapping[str, object], folder: Path, pipeline: Pipeline) -> None:
    """SettingsChanged if ids would be those of other events than the state and the registry know.

    `settings`: those with which the state in this folder was begun.
    """
    refused = [each for each in changed_settings(settings, pipeline) if each.change == "refused"]
    if refused:
        raise SettingsChanged(
            f"{pipeline.file}: {_listed(refused)} when the state {folder} was begun: its ids, and those"
            " in the registry, would be those of other events. Put that back; or begin anew, with everything"
            f" joined again: {begin_anew(pipeline)}"
        )


def why_begun_anew(state: DispatcherState, pipeline: Pipeline) -> str | None:
    """Why all logs have to be read again: what the state has of them was made with other settings.

    None if it was not. Other globs that find all the files that are known are remembered, and no reason.
    """
    if not state.settings:
        _tell_of_waiting_without_logs(state)
        return "the state does not say with which settings it was begun: all logs are read again"
    changed = changed_settings(state.settings, pipeline)
    files = state.files().values()
    harmful = [each for each in changed if not _only_widens(each, pipeline, files)]
    if harmful:
        _tell_of_waiting_without_logs(state)
        return f"{_listed(harmful)}: all logs are read again, and what is registered stays so"
    if changed:
        state.note_settings(remembered_settings(pipeline))
    return None


def was_begun_otherwise(path: Path, pipeline: Pipeline) -> bool:
    """Whether a state that is set aside was begun with other settings: a crash may have come between.

    Then lines that are there are not passed over, whatever `new_epoch_reads_from` says.
    """
    if not path.exists():
        return False
    try:
        state = StateReader(path.parent, path.name)
    except (StateUnavailable, FormatTooNew):
        return False
    try:
        return not state.settings or bool(changed_settings(state.settings, pipeline))
    finally:
        state.close()


def _only_widens(changed: ChangedSetting, pipeline: Pipeline, files: Iterable[TrackedFile]) -> bool:
    """Whether another glob finds every file that is known and there."""
    side = WIDENS.get(changed.key)
    if side is None:
        return False
    globbed = GlobbedPaths(str(changed.now))
    return all(
        globbed.match(tracked.file.path)
        for tracked in files
        if tracked.file.side == side and tracked.state == "open"
    )


def _tell_of_waiting_without_logs(state: DispatcherState) -> None:
    """Warn of records that wait and whose logs are gone: a new epoch can't read them again."""
    there = {number for number, tracked in state.files().items() if tracked.state == "open"}
    gone = sum(count for number, count in state.waiting.by_file().items() if number not in there)
    if gone:
        log.warning(
            "%s: %s with the state, for want of logs: put the logs back, and they are read and joined",
            state.folder,
            counted(gone, "waiting record", "go"),
        )


def _listed(changed: Iterable[ChangedSetting]) -> str:
    return ", ".join(map(str, changed))
