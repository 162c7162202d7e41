"""Tailing: which log files there are, how far each was read, and what became of those that moved.

A log file grows, is renamed, copied, truncated, compressed or deleted at any moment, mostly between two
looks. `tail.LogTail.observe` takes one look: it scans the folder and matches what it finds to the files
that are known. `observation` holds what one look notices. `contents` decides whether two files are the
same, by what they hold. `rotation` knows which names a rotation may give. `rotated_files` searches files
that are not where they were, `unseen_rotations` those that were begun and rotated while nobody looked,
and `missing_files` decides when a file is given up. `open_files` keeps growing files open, so that their
ends can be read wherever they go; `unknown_ends` says which ends may be lost all the same. `whole_gzips`
waits for compressed files, `retry_times` says when a file that can't be read is tried again. `known_files`
cuts what is read next of each file. Read `tail` first, then docs/protocol.md, part D.
"""
