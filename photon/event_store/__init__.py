"""The event store: it indexes primary events, and finds them again by their ids.

`indexing` writes the events of a task into a segment; `segments` is the format of that file, and
`compaction` merges segments so that a lookup searches few of them. `hashing` makes 64 bits of an id, by
which segments are sorted. `log_files` tells tasks which log files there are. `interface` is what the join
asks, and `logs` answers it: it searches the segments, reads the lines in the logs and compares their ids.
Read `interface` first, then `logs`.
"""
