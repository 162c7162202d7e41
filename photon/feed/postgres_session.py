"""How a follower speaks with PostgreSQL: by which URL, and under which settings of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg2
from psycopg2.extensions import ISOLATION_LEVEL_READ_COMMITTED, parse_dsn

from photon.process.errors import WrongUsage

CONNECT_TIMEOUT_SECONDS = 10
# A machine that is gone holds the cursor's row for a minute: 30 s, and three times 10 s without an answer.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
# For each transaction, since a pool of connections forgets what a session was told. A step takes as long as
# it takes; a process that stands still within one does not hold the row for ever. What a text means must not
# go by the settings of a database or a role: zones, orders of days and months, signs of intervals. Policies
# would hide rows from a follower without a word.
_SETTINGS = {
    "statement_timeout": "0",
    "lock_timeout": "'10s'",
    "idle_in_transaction_session_timeout": "'10min'",
    "timezone": "'UTC'",
    "datestyle": "'ISO, YMD'",
    "intervalstyle": "'postgres'",
    "row_security": "off",
    **{f"tcp_{name}": str(value) for name, value in _KEEPALIVES.items()},
}
_SETTINGS_SINCE = {140_000: {"idle_session_timeout": "0"}, 170_000: {"transaction_timeout": "0"}}


def parts_of(url: str) -> dict[str, str]:
    """The parts of a URL. WrongUsage, which never has the URL: a password may be anywhere in it."""
    parsed: dict[str, str] = {}
    with suppress(psycopg2.Error):  # the error's words may have the password
        parsed = parse_dsn(url)
    # A password's own @ is in the host then, and behind its own slash the rest is in the database's name.
    if not parsed or "@" in parsed.get("host", "") or "@" in _path_of(url):
        expected = "expected a URL such as postgresql://USER@HOST:5432/DATABASE"
        raise WrongUsage(f"--to: {expected}; in names and passwords write %40 for @, %3A for :, %2F for /")
    return parsed


def _path_of(url: str) -> str:
    return url.partition("://")[2].partition("?")[0].partition("/")[2]


def connected(url: str) -> Any:
    """A connection. psycopg2.Error."""
    found = psycopg2.connect(
        url,
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        fallback_application_name="photon follow",
        client_encoding="UTF8",
        **_KEEPALIVES,
    )
    found.set_session(isolation_level=ISOLATION_LEVEL_READ_COMMITTED, readonly=False)
    return found


def settings_for(server_version: int) -> str:
    """The settings that each transaction begins with, on a server of this version."""
    found = dict(_SETTINGS)
    for since, more in _SETTINGS_SINCE.items():
        found |= more if server_version >= since else {}
    return "; ".join(f"SET LOCAL {name} = {value}" for name, value in found.items())
