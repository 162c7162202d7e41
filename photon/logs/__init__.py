"""Logs: the files of a datacenter are found, known again, cut into ranges of whole records, and parsed.

`files` has the records by which a log file is known, and `folders` the one interface to a folder of logs:
files of this machine, or objects (`on_s3`). `tailing` follows the files while they grow and are rotated.
`cutting` cuts the next range of a file; `ranges` reads it again later, as it was planned. `parse` makes
events and dead letters of ranges, which `joined_ranges` puts together, by the `formats` of their lines,
and `columns` all values of the few records that are joined. `lines_at`, `scattered` and `one_record` read
single records again by their places. Read `files` and `parse` first. The dispatcher decides which range
is read when.
"""
