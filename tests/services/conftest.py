"""The fixture that these tests share with those of whole processes."""

from tests.e2e.conftest import mark

__all__ = ["mark"]
