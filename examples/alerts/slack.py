"""Writes each alert to the Slack channel of the incoming webhook in SLACK_WEBHOOK_URL."""

from __future__ import annotations

import json
import os
import urllib.request

from photon.health.alerts import Alert

TIMEOUT_SECONDS = 10.0
ICONS = {"ok": ":large_green_circle:", "warn": ":large_yellow_circle:", "error": ":red_circle:"}


def tell(alert: Alert) -> None:
    """Post it as a message. An answer other than success raises, and it is told again at the next tick."""
    message = {"text": f"{ICONS[alert.level]} *{alert.title}*\n{alert.text}"}
    request = urllib.request.Request(
        os.environ["SLACK_WEBHOOK_URL"], json.dumps(message).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
        pass
