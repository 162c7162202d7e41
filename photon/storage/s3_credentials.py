"""Credentials of AWS: what boto3's chain finds now, for all that asks a store or an endpoint in this process.

boto3 never looks into a file again, asks for role keys at each request of their last quarter of an hour, and
waits for ever for a program that gives them. So its chain is asked from the beginning again: before keys end,
now and then, and after a refusal. Nobody waits for it while there are keys that may be used.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from photon.storage.store_errors import REMEDIES, WRONG_KEYS

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials

WAIT_SECONDS = 30.0  # for boto3's chain, which asks other people's files, programs and services
HUNG_SECONDS = 60.0  # a look that takes longer may be begun again: a program may never answer
LOOKED_UP_SECONDS = 300.0  # between two looks: boto3 may believe in a later end than there is
RENEWED_SECONDS, RENEWED_PAUSE_SECONDS = (
    300.0,
    30.0,
)  # before an end: services have newer keys that long before
LAST_SECONDS = 10.0  # before an end: a request on its way would come too late
FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 5.0, 60.0  # between looks while a store goes on refusing
SAID_CHARACTERS = 300
HOW_TO_SET = "set them as for boto3, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
_NOT_OF_KEYS = {"RequestTimeTooSkewed", "InvalidObjectState"}  # with other keys the answer is the same


class CredentialsMissing(PermissionError):
    """Nothing can be asked: there are no credentials, or what gives them can't be used."""


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
        self._credentials: Credentials | None = None  # boto3's, which know when the keys end
        self._keys: ReadOnlyCredentials | None = None
        self.source = ""  # where boto3 found them, in its words
        self.why = ""  # the last look gave none
        self._other_source = ""  # where the last look found others: it may have met half a file
        self._is_refused = self._is_doubted = False
        self._begun = self._ended = 0  # looks
        self._begun_seconds = float("-inf")
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def now(self) -> ReadOnlyCredentials:
        """The keys to use in the next request. CredentialsMissing."""
        with self._answered:
            can_be_used = self._can_be_used()
            if self._is_due(can_be_used):
                self._begin()
            left_seconds = self._begun_seconds + self._wait_seconds - self._elapsed_seconds()
            if not can_be_used and not self._answered.wait_for(self._has_answer, max(0.0, left_seconds)):
                raise CredentialsMissing(
                    f"boto3 finds no credentials within {self._wait_seconds:.0f} s: look at the program or "
                    "the service that gives them"
                )
            if self._keys is None:
                raise CredentialsMissing(f"there are no credentials{self.why}; {HOW_TO_SET}")
            return self._keys

    def refuse(self, are_wrong: bool) -> None:
        """Have others looked up: the next request waits for them, or uses these if only a right may lack."""
        with self._answered:
            self._is_refused |= are_wrong
            self._is_doubted |= not are_wrong

    def _can_be_used(self) -> bool:
        return self._keys is not None and not self._is_refused and not self._end_within(LAST_SECONDS)

    def _end_within(self, seconds: float) -> bool:
        refresh_needed = getattr(self._credentials, "refresh_needed", None)
        return refresh_needed is not None and bool(refresh_needed(seconds))

    def _has_answer(self) -> bool:
        return self._ended == self._begun

    def _is_due(self, can_be_used: bool) -> bool:
        """Whether boto3's chain is to be asked now."""
        seconds = self._elapsed_seconds() - self._begun_seconds
        if not self._has_answer():
            return seconds >= HUNG_SECONDS * (self._begun - self._ended)
        if not can_be_used or self._is_doubted or self._other_source:
            return seconds >= self._pause_seconds
        is_near = seconds >= RENEWED_PAUSE_SECONDS and self._end_within(RENEWED_SECONDS)
        return is_near or seconds >= LOOKED_UP_SECONDS

    def _begin(self) -> None:
        number = self._begun + 1
        try:
            threading.Thread(target=self._look_up, args=(number,), name="s3-keys", daemon=True).start()
        except RuntimeError as error:  # there are too many
            self.why = f" ({error})"
            return
        self._begun, self._begun_seconds = number, self._elapsed_seconds()
        is_wanted = self._is_refused or self._is_doubted
        self._pause_seconds = (
            min(2 * self._pause_seconds, MOST_PAUSE_SECONDS) if is_wanted else FIRST_PAUSE_SECONDS
        )
        self._is_doubted = False

    def _look_up(self, number: int) -> None:
        found, keys, why = None, None, ""
        try:
            if (found := self._ask()) is not None:
                keys = found.get_frozen_credentials()
        except Exception as error:  # of files, programs and services: any
            found, why = None, f" ({str(error)[:SAID_CHARACTERS]})"
        with self._answered:
            if number != self._begun:  # another look began while this one hung
                return
            self._ended, self.why = number, why
            if found is None:  # the present ones are the best there are, while they last
                self._is_refused = False
                if self._end_within(LAST_SECONDS):
                    self._keys = None
            elif self._keys is not None and found.method not in (self.source, self._other_source):
                self._other_source = found.method
            else:
                self._credentials, self._keys, self.source = found, keys, found.method
                self._other_source, self._is_refused = "", False
            self._answered.notify_all()


_own = ProcessKeys()


def own_keys() -> ProcessKeys:
    """The keys of this process, until it forgets them."""
    return _own


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
        _own.refuse(are_wrong=code in WRONG_KEYS)
    if code in WRONG_KEYS:
        return f"the store refuses these credentials: {_set_others()}"
    # A proxy's refusal has no code of S3's: it may mean either.
    either = f"{REMEDIES['AccessDenied']}; if they are wrong, {_set_others()}"
    return REMEDIES.get(code or "", either)


def _set_others() -> str:
    if _own.source == "env":
        return "set others in the environment, and start again what has these in its own, Spark's workers too"
    if _own.why:
        return f"others can't be looked up{_own.why}"
    found = f" ({_own.source})" if _own.source else ""
    return f"set others where boto3 finds them{found}, it goes on by itself"
