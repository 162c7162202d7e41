"""Fixtures that tests of whole processes share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.process_marks import MARK, marked


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark in the environment of all that a test starts; nobody with it is left behind."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    for process in marked(mark):
        process.kill()
