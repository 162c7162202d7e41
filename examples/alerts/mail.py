"""Mails each alert to MAIL_TO, from MAIL_FROM, by the SMTP server at MAIL_HOST (host:port)."""

from __future__ import annotations

import os
import smtplib
from email.message import EmailMessage

from photon.health.alerts import Alert

TIMEOUT_SECONDS = 10.0


def tell(alert: Alert) -> None:
    """Mail it. A server that refuses raises, and it is told again at the next tick."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = alert.title, os.environ["MAIL_FROM"], os.environ["MAIL_TO"]
    run = f"\n\nDagster's run: {alert.run}" if alert.run else ""
    mail.set_content(f"{alert.text}{run}\n")
    with smtplib.SMTP(os.environ["MAIL_HOST"], timeout=TIMEOUT_SECONDS) as server:
        server.send_message(mail)
