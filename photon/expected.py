"""Errors that a user can mend, with messages that say how: everything else is a defect.

How they are shown is for those who ask: commands end with a status, runs of Dagster fail with the message.
Imported late, for it imports the whole engine.
"""

from __future__ import annotations

from photon.adapting import AdapterNotFound
from photon.dispatcher.batch import Superseded, TooManyDeaths
from photon.dispatcher.lock import AlreadyRunning
from photon.dispatcher.starting import LakeMismatch, RetiredDatacenter
from photon.dispatcher.state import StateTooNew, StateUnavailable
from photon.event_store.log_file_map import NewerFormat
from photon.fetch import JavaMissing
from photon.output import LakeUnavailable
from photon.pipeline import PipelineError
from photon.registry.init import RegistryMissing
from photon.registry.interface import RegistryMismatch, RegistryUnavailable
from photon.registry.refill import RepairSuperseded
from photon.registry.register import RegisterTooNew, ReshardingRefused

# What a user has written can't be used.
WRONG_USAGE: tuple[type[Exception], ...] = (PipelineError, AdapterNotFound)

# It can't be done now, or not here.
NOT_DONE: tuple[type[Exception], ...] = (
    AlreadyRunning,
    JavaMissing,
    LakeMismatch,
    LakeUnavailable,
    NewerFormat,
    RegisterTooNew,
    RegistryMismatch,
    RegistryMissing,
    RegistryUnavailable,
    RepairSuperseded,
    ReshardingRefused,
    RetiredDatacenter,
    StateTooNew,
    StateUnavailable,
    Superseded,
    TooManyDeaths,
    OSError,
)
