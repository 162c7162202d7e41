"""What verification's tasks hand to its queries: the columns of records and verdicts.

Who makes them is `photon.verification.tasks`, who puts them together `jobs.verification_queries`.
"""

from __future__ import annotations

import pyarrow as pa

_PLACE = [("datacenter", pa.string()), ("file", pa.int32()), ("offset", pa.int64())]
# A row with `lost_path` is no record: bytes that can't be read again.
_LOST = [("lost_path", pa.string()), ("lost_bytes", pa.int64()), ("lost_reason", pa.string())]
FOREIGN_RECORDS = pa.schema(
    [
        *_PLACE,
        ("event_id", pa.string()),  # null: the line is no event
        ("event", pa.string()),  # its identity: the id, with its time before it where that belongs to it
        ("key", pa.string()),
        ("time_us", pa.int64()),
        ("event_us", pa.int64()),  # when its event was, as collection sees it: as its id says, if it does
        ("around_us", pa.int64()),  # about when its primary was
        ("facts", pa.int32()),
        ("raw", pa.binary()),
        *_LOST,
    ]
)
PRIMARY_RECORDS = pa.schema(
    [
        *_PLACE,
        ("key", pa.string()),
        ("time_us", pa.int64()),
        ("path", pa.string()),
        ("raw", pa.binary()),
        *_LOST,
    ]
)
COMPARED = pa.schema(
    [
        ("datacenter", pa.string()),
        ("epoch", pa.string()),
        ("batch", pa.int64()),
        ("occurrence", pa.string()),
        ("event_id", pa.string()),
        ("primary_file", pa.int32()),
        ("verdict", pa.string()),  # same | differs | no primary
        ("detail", pa.string()),
    ]
)
DECIDED = pa.schema(
    [
        *_PLACE,
        ("event_id", pa.string()),
        ("event_us", pa.int64()),
        ("outcome", pa.string()),  # a class | missing_and_cleared | joinable | unavailable
        ("facts", pa.int32()),
        ("detail", pa.string()),
    ]
)
