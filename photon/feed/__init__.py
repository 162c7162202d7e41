"""The changes between kept releases, in steps, and the followers that deliver them.

A *step* is what one kept release shows that the one before it did not: mostly new rows. `steps` computes it
from the parts of the two releases and the files of today, and counts its rows before it gives the first one.
`kept` says which release comes next, `comparing` what the two say themselves; `new_rows` and `rebuilt_rows`
read joined rows, `side_rows` what is shown of side tables. `following` has each step delivered to a *sink*,
which keeps with the rows its *cursor*: the release that it has. `sinks` says which one a target names:
standard output, a folder, PostgreSQL. `marker` is what the pipeline reads whose log such a folder is. Read
`step` first, then `sink`.
"""
