"""Credentials for S3: what boto3's chain finds now, for all that asks a store in this process.

boto3 never looks into a file again, asks for role keys at each request of their last quarter of an hour, and
waits for ever for a program that gives them. So its chain is asked from the beginning again: before keys end,
now and then, and after a refusal. Nobody waits for it while there are keys that may be used.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from photon.storage.store_errors import REMEDIES, WRONG_KEYS

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials

WAIT_SECONDS = 30.0  # for boto3's chain, which asks other people's files, programs and services
RENEWED_SECONDS = 300.0  # before keys end: services have newer ones that long before
LAST_SECONDS = 10.0  # before keys end: a request on its way would come too late
LOOKED_UP_SECONDS = 300.0  # between two looks for keys that have no end
# Between two looks for others: where the present ones can be used, and where they can't.
PAUSE_SECONDS, REFUSED_PAUSE_SECONDS = 30.0, 5.0
SAID_CHARACTERS = 300
HOW_TO_SET = "set them as for boto3, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
_NOT_OF_KEYS = {"RequestTimeTooSkewed", "InvalidObjectState"}  # with other keys the answer is the same


class CredentialsMissing(PermissionError):
    """Nothing can be asked: there are no credentials, or what gives them can't be used."""


@dataclass(frozen=True)
class _Found:
    """What the chain gave: boto3's credentials know when they end, and the keys are those of one moment."""

    credentials: Credentials
    keys: ReadOnlyCredentials

    @property
    def have_an_end(self) -> bool:
        return hasattr(self.credentials, "refresh_needed")

    def end_within(self, seconds: float) -> bool:
        return self.have_an_end and bool(self.credentials.refresh_needed(seconds))


def _ask_boto3() -> Credentials | None:
    import botocore.session

    found: Credentials | None = botocore.session.Session().get_credentials()
    return found


class ProcessKeys:
    """The keys of a process. Thread-safe: of several threads that need new ones, one thread asks for all."""

    def __init__(
        self,
        ask: Callable[[], Credentials | None] = _ask_boto3,
        elapsed_seconds: Callable[[], float] = time.monotonic,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._ask, self._elapsed_seconds, self._wait_seconds = ask, elapsed_seconds, wait_seconds
        self._answered = threading.Condition()
        self._found: _Found | None = None
        self._why = "there are no credentials"  # where nothing is found
        self._is_refused = self._is_asking = False
        self._asked_seconds = float("-inf")

    def now(self) -> ReadOnlyCredentials:
        """The keys to use in the next request. CredentialsMissing."""
        with self._answered:
            can_be_used = self._can_be_used()
            if self._is_due(can_be_used) and not self._is_asking:
                self._is_asking, self._asked_seconds = True, self._elapsed_seconds()
                threading.Thread(target=self._look_up, name="s3-credentials", daemon=True).start()
            if not can_be_used and not self._answered.wait_for(self._has_answer, self._wait_seconds):
                raise CredentialsMissing(
                    f"boto3 finds no credentials within {self._wait_seconds:.0f} s: look at the program or "
                    "the service that gives them"
                )
            if self._found is None:
                raise CredentialsMissing(f"{self._why}; {HOW_TO_SET}")
            return self._found.keys

    def _can_be_used(self) -> bool:
        return self._found is not None and not self._is_refused and not self._found.end_within(LAST_SECONDS)

    def _has_answer(self) -> bool:
        return not self._is_asking

    def _is_due(self, can_be_used: bool) -> bool:
        """Whether boto3's chain is to be asked now."""
        seconds = self._elapsed_seconds() - self._asked_seconds
        if not can_be_used or self._found is None:
            return seconds >= REFUSED_PAUSE_SECONDS
        if self._found.have_an_end:
            return self._found.end_within(RENEWED_SECONDS) and seconds >= PAUSE_SECONDS
        return seconds >= LOOKED_UP_SECONDS

    def refuse(self) -> None:
        """Have the next request wait for what the chain gives now: a store has refused these keys."""
        with self._answered:
            self._is_refused = True

    @property
    def source(self) -> str:
        """Where boto3 found the keys, in its own words; empty before it did."""
        found = self._found
        return str(found.credentials.method) if found is not None else ""

    def _look_up(self) -> None:
        found, why = None, "there are no credentials"
        try:
            if (credentials := self._ask()) is not None:
                found = _Found(credentials, credentials.get_frozen_credentials())
        except Exception as error:  # of files, programs and services: any
            why += f" ({str(error)[:SAID_CHARACTERS]})"
        with self._answered:
            if found is not None or not self._can_be_used():
                self._found, self._is_refused = found, False
            self._why, self._is_asking = why, False
            self._answered.notify_all()


_own = ProcessKeys()


def keys_now() -> ReadOnlyCredentials:
    """The keys of this process for its next request. CredentialsMissing."""
    return _own.now()


def forget_keys() -> None:
    """Look for keys anew, for whoever has changed them in this process, and after a fork."""
    global _own
    _own = ProcessKeys()


os.register_at_fork(after_in_child=forget_keys)


def refused(code: str | None) -> str:
    """Say what to do about a refusal with this code, and have the keys of the next request looked up anew."""
    if code not in _NOT_OF_KEYS:
        _own.refuse()
    if code in WRONG_KEYS:
        return f"the store refuses these credentials: {_set_others()}"
    # A proxy's refusal has no code of S3's: it may mean either.
    either = f"{REMEDIES['AccessDenied']}; if they are wrong, {_set_others()}"
    return REMEDIES.get(code or "", either)


def _set_others() -> str:
    if _own.source == "env":
        return "set others in the environment, and start again what has these in its own, Spark's workers too"
    found = f" ({_own.source})" if _own.source else ""
    return f"set others where boto3 finds them{found}, it goes on by itself"
