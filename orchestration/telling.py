"""Calls of a user's function, each with a time limit: an alert that it does not take holds up no other.

What there is to tell belongs to `seen`, what was told to `alerts`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from photon.health.alerts import Alert, Hook
from photon.process.clock import MICROSECONDS, Clock

# Dagster ends a tick after 60 s, and what it has told would be told again. The last call may take 30 s more.
TELLING_SECONDS = 20


class AlertNotTaken(Exception):
    """An alert that the user's function did not take. Its cause is what the function raised."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of the alerts for which there was time."""

    done: tuple[Alert, ...]
    failed: dict[str, AlertNotTaken]  # why an alert failed, by its key


@dataclass
class _Call:
    """A call of the function, in a thread that ends with the process."""

    alert: Alert
    timeout_seconds: float
    error: BaseException | None = None  # also SystemExit
    has_ended: threading.Event = field(default_factory=threading.Event)

    def has_ended_in_time(self, hook: Hook) -> bool:
        threading.Thread(target=self._run, args=(hook,), name="alerts.hook", daemon=True).start()
        return self.has_ended.wait(self.timeout_seconds)

    def _run(self, hook: Hook) -> None:
        try:
            hook(self.alert)
        except BaseException as error:
            self.error = error
        finally:
            self.has_ended.set()


class Calls:
    """The calls of one pipeline file's function in this process, one after another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hanging: _Call | None = None

    def ended_late(self) -> tuple[Alert, ...]:
        """The alert that was told after its call's time was over, if any. NotTold while it hangs."""
        late = self._hanging
        if late is None:
            return ()
        if not late.has_ended.is_set():
            raise self._hangs(late)
        self._hanging = None
        return (late.alert,) if late.error is None else ()

    def tell(self, hook: Hook, alerts: Iterable[Alert], timeout_seconds: float) -> Outcome:
        """Call the function for as many alerts as fit into a tick. None is called after one that hangs.

        `timeout_seconds`: of one call.
        """
        began_us, done, failed = self._clock.elapsed_us(), list[Alert](), dict[str, AlertNotTaken]()
        for alert in alerts:
            is_over = self._clock.elapsed_us() - began_us >= TELLING_SECONDS * MICROSECONDS
            if is_over or self._hanging is not None:
                break
            problem = self._problem_of(hook, _Call(alert, timeout_seconds))
            if problem is None:
                done.append(alert)
            else:
                failed[alert.key] = problem
        return Outcome(tuple(done), failed)

    def _problem_of(self, hook: Hook, call: _Call) -> AlertNotTaken | None:
        if not call.has_ended_in_time(hook):
            self._hanging = call
            return self._hangs(call)
        if call.error is None:
            return None
        said = f"{type(call.error).__name__}: {call.error}"
        problem = AlertNotTaken(f"alerts.hook raised for {call.alert.title!r}, which is told again: {said}")
        problem.__cause__ = call.error
        return problem

    def _hangs(self, call: _Call) -> AlertNotTaken:
        return AlertNotTaken(
            f"alerts.hook has not returned for {call.alert.title!r} in {call.timeout_seconds:g} s"
            ", and is not called until it has: give all that it waits for a timeout,"
            " then reload the code location"
        )
