"""How a run fails when something is wrong that a user can mend: with the message alone, no stack of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure


@contextmanager
def failures_with_a_message() -> Iterator[None]:
    """Turn the engine's expected errors into a Failure that says what to do; defects keep their stack."""
    from photon import expected  # late: the whole engine, which a code location does not need to load

    try:
        yield
    except (*expected.WRONG_USAGE, *expected.NOT_DONE) as error:
        # Dagster would try it again where a retry policy says so; a message for a user is not for that.
        raise Failure(description=str(error), allow_retries=False) from None
