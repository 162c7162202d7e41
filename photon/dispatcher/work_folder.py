"""Keep index segments and waiting records where the pipeline file says: `datacenters.NAME.work`."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from photon.event_store.interface import index_folder
from photon.pipeline.location import Location, S3Folder
from photon.pipeline.sections import Datacenter
from photon.state.dispatcher_state import DispatcherState
from photon.state.waiting import segments as waiting
from photon.storage.delta import lake_errors
from photon.storage.store import ObjectStore, store_of

log = logging.getLogger(__name__)


def settle_work(state: DispatcherState, place: Datacenter) -> None:
    """Move an epoch's files to where they are to be now. LakeUnavailable, StateUnavailable.

    They never change, so a move that ended early is made again.
    """
    old, new = state.work, place.work_of(state.epoch or "")
    if old == new:
        return
    is_moved = _without_endpoint(old) != _without_endpoint(new)
    if is_moved:
        log.warning("index segments and waiting records are copied from %s to %s", old, new)
        with lake_errors(f"copy index segments and waiting records from {old} to {new}"):
            for source, target in zip(_stores(old), _stores(new), strict=True):
                target.make()
                for name in source.names():
                    target.put(name, partial(_copy, source, name))
                target.sync()
    state.put_work(new)
    if is_moved:
        _remove(old)


def remove_work(place: Datacenter, epoch: str) -> None:
    """Remove the files of an epoch that is over; what is in the state folder, the next epoch sweeps."""
    if (work := place.work_of(epoch)) != place.state:
        _remove(work)


def _remove(work: Location) -> None:
    try:
        for store in _stores(work):
            for name in list(store.names()):
                store.remove(name)
    except OSError as error:
        log.warning("%s can't be removed, and may be: nobody needs it (%s)", work, error)


def _stores(work: Location) -> Iterator[ObjectStore]:
    yield store_of(index_folder(work))
    yield store_of(work / waiting.FOLDER)


def _copy(source: ObjectStore, name: str, sink: BinaryIO) -> None:
    with source.open(name) as content:
        shutil.copyfileobj(content, sink)


def _without_endpoint(location: Location) -> str:
    """The same bucket may be reached by another address."""
    return f"s3://{location.bucket}/{location.key}" if isinstance(location, S3Folder) else str(location)
