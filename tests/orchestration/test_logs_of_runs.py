"""A line that Dagster can't store ends no run: its storage may be away when Photon logs something."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from photon.assets.runs import logs_that_end_no_run

LOG = logging.getLogger("photon.somewhere")


class Storing(logging.Handler):
    """Stores lines as Dagster's handler does: it raises what its storage raises."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[str] = []
        self.tries = 0
        self.is_away = False

    def handle(self, record: logging.LogRecord) -> bool:
        self.tries += 1
        if self.is_away:
            raise ConnectionError("no storage")
        self.stored.append(record.getMessage())
        return True


@pytest.fixture
def storing() -> Iterator[Storing]:
    handler, logger = Storing(), logging.getLogger("photon")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_line_is_stored(storing: Storing) -> None:
    with logs_that_end_no_run():
        LOG.warning("a new epoch")
    assert storing.stored == ["a new epoch"]


def test_one_that_can_not_be_stored_raises_nothing_and_the_next_ones_wait_for_nobody(
    storing: Storing,
) -> None:
    storing.is_away = True
    with logs_that_end_no_run():
        LOG.warning("one")
        LOG.warning("another")
    assert storing.tries == 1


def test_afterwards_lines_raise_as_before(storing: Storing) -> None:
    with logs_that_end_no_run():
        pass
    storing.is_away = True
    with pytest.raises(ConnectionError):
        LOG.warning("one")
