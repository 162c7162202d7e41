"""The tables of the state database."""

from __future__ import annotations

STATE_FORMAT = 1

# The table `files` has the fields of LogFile and TrackedFile in their order; `ordered` has the records that
# the dispatcher took up by order, and after which batch (protocol E4).
SCHEMA = """
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
CREATE TABLE waiting_segments (
    name TEXT PRIMARY KEY, records INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, tally TEXT NOT NULL,
    next_due_us INTEGER NOT NULL, least_primary_us INTEGER NOT NULL,
    is_given_up INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE waiting_pages (
    segment TEXT NOT NULL, page INTEGER NOT NULL, states BLOB NOT NULL, PRIMARY KEY (segment, page));
CREATE TABLE lost (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, event_id TEXT NOT NULL,
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID;
CREATE TABLE ordered (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, batch INTEGER NOT NULL,
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID;
CREATE TABLE requeued (id INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE inherited (token TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE segments (name TEXT PRIMARY KEY, events_of TEXT NOT NULL) WITHOUT ROWID;
"""
