"""A shift that lands a datacenter's sources, beside the shifts that join its logs, and in turns as those."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.ending import Ended, ShiftLimits, StopCondition
from photon.dispatcher.shift.lease import LEASE_SECONDS, DatacenterLock, Heartbeat, Lease, stuck_seconds
from photon.landing.marker import landing_lease
from photon.landing.service import Landing
from photon.landing.sources import sources_of
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, SystemClock, microseconds
from photon.process.errors import UserError

LOOK_SECONDS = 0.2  # how soon a shift notices that it is to end


def run_landing(pipeline: Pipeline, datacenter: str, limits: ShiftLimits, callbacks: Callbacks) -> Ended:
    """Land what a datacenter's `land` names until the shift is to end; why it ended.

    Waits in line for the shift before it, and for folders into which another process lands. UserError, such
    as TopicRefused; AlreadyRunning, StoppedWaiting, OSError.
    """
    clock, landing = SystemClock(), Landing(sources_of(pipeline, [datacenter]), is_patient=True)

    def lease() -> Lease:
        length_us = None if limits.length is None else microseconds(limits.length)
        return Lease.of_this_process(limits.run, clock.now_us(), length_us)

    folder = landing_lease(pipeline, datacenter)
    lock = DatacenterLock.take_over(folder, datacenter, lease, callbacks.should_stop)
    heartbeat = Heartbeat(lock, LEASE_SECONDS, stuck_seconds(pipeline.limits), clock)
    try:
        end = StopCondition(lock, limits, callbacks.should_stop, heartbeat, clock)
        _land_until(end, landing, callbacks)
        return end.why or "done"
    except UserError as error:
        lock.tell_end(ended_by=str(error).removesuffix("."))
        raise
    finally:
        heartbeat.stop()
        lock.release(clock.now_us())


def _land_until(end: StopCondition, landing: Landing, callbacks: Callbacks) -> None:
    """Land on other threads, for this one takes signals and reports."""
    told, since_us = "", 0
    with ThreadPoolExecutor(1, "landing") as threads:
        try:
            future = threads.submit(landing.run)
            while not wait([future], LOOK_SECONDS).done:
                if end.has_come():
                    landing.stopped.set()
                now_us = end.clock.now_us()
                waits_for = "; ".join(sorted(list(landing.held.values())))
                if waits_for != told:
                    end.lock.tell_wait(waits_for, now_us)
                    if waits_for:
                        callbacks.on_wait(waits_for)
                    else:
                        callbacks.on_resume(told, (now_us - since_us) / MICROSECONDS)
                    told, since_us = waits_for, now_us
            future.result()
        finally:
            landing.stopped.set()
