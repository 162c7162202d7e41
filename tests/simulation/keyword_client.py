"""Clients that know a request by its parameters, as boto3's methods have them."""

from __future__ import annotations

import json
from typing import Any


class KeywordClient:
    """Takes requests that are written already too, as `WireClient.post` does."""

    def post(self, operation: str, body: bytes) -> Any:
        """The answer of the method with this name."""
        return getattr(self, operation)(**json.loads(body))
