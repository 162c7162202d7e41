"""Posts each alert as JSON to the URL in ALERTS_URL: for pagers, chat bots and queues."""

from __future__ import annotations

import json
import os
import urllib.request

from photon.health.alerts import Alert

TIMEOUT_SECONDS = 10.0


def tell(alert: Alert) -> None:
    """Post it. An answer other than success raises, and the alert is told again at the next tick."""
    body = json.dumps(alert.as_dict()).encode()
    request = urllib.request.Request(os.environ["ALERTS_URL"], body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
        pass
