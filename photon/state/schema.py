"""The tables of the state database, and how those of an older Photon become them."""

from __future__ import annotations

from photon.state.waiting_list import TABLES as WAITING_TABLES

STATE_FORMAT = 4
LOST = """CREATE TABLE lost (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, event_id TEXT NOT NULL,
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID"""
# Records that were taken up by order, and after which batch (protocol E4).
ORDERED = """CREATE TABLE ordered (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, batch INTEGER NOT NULL,
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID"""
# Statements that make a state of each older format one of the next. A plan of Photon 0.1.0 was attempted at
# least once, and its index of primary events is of no use any more.
MIGRATIONS = {
    1: (
        "ALTER TABLE plan ADD COLUMN attempts TEXT NOT NULL DEFAULT '{}'",
        "ALTER TABLE files ADD COLUMN disk_bytes INTEGER NOT NULL DEFAULT 0",
        LOST,
        "CREATE TABLE segments (name TEXT PRIMARY KEY, events_of TEXT NOT NULL) WITHOUT ROWID",
        "INSERT INTO meta VALUES ('index_lost', '1')",
    ),
    2: (*WAITING_TABLES, ORDERED),  # `waiting_migration` fills them
    3: (
        "ALTER TABLE files ADD COLUMN seen_hash BLOB NOT NULL DEFAULT x''",
        "ALTER TABLE files ADD COLUMN modified_ns INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN target TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE files ADD COLUMN altered_us INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN in_use INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE files ADD COLUMN end_unknown INTEGER NOT NULL DEFAULT 0",
    ),
}
WAITING = ";\n".join(WAITING_TABLES)

# `files` has the fields of LogFile and TrackedFile in their order.
SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    number INTEGER PRIMARY KEY, side TEXT NOT NULL, path TEXT NOT NULL, inode INTEGER NOT NULL,
    compressed INTEGER NOT NULL, header BLOB NOT NULL, header_bytes INTEGER NOT NULL,
    head_bytes INTEGER NOT NULL, head_hash BLOB NOT NULL, offset_bytes INTEGER NOT NULL,
    tail_hash BLOB NOT NULL, inside_oversized INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    grown_us INTEGER NOT NULL, max_time_us INTEGER, state TEXT NOT NULL,
    disk_bytes INTEGER NOT NULL, seen_hash BLOB NOT NULL, modified_ns INTEGER NOT NULL,
    target TEXT NOT NULL, altered_us INTEGER NOT NULL, in_use INTEGER NOT NULL,
    end_unknown INTEGER NOT NULL);
CREATE TABLE plan (
    batch INTEGER PRIMARY KEY, plan_id TEXT NOT NULL, content TEXT NOT NULL,
    advances TEXT NOT NULL, requeue_id INTEGER, attempts TEXT NOT NULL);
{WAITING};
{LOST};
{ORDERED};
CREATE TABLE requeued (id INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE inherited (token TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE segments (name TEXT PRIMARY KEY, events_of TEXT NOT NULL) WITHOUT ROWID;
"""
