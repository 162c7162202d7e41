"""How a run fails when something is wrong that a user can mend: with the message alone, no stack of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure

from photon.errors import UserError


@contextmanager
def failures_with_a_message() -> Iterator[None]:
    """Turn the engine's expected errors into a Failure that says what to do; defects keep their stack."""
    try:
        yield
    except (UserError, OSError) as error:
        # Dagster would try it again where a retry policy says so; a message for a user is not for that.
        raise Failure(description=str(error), allow_retries=False) from None
