"""What changed between kept releases, in steps, and the followers that deliver them.

A *step* is what one kept release shows that the one before it did not: mostly new rows. It is computed from
the parts of the two releases and the files of today, and its rows are counted before the first one is given
out. A *sink* takes whole steps in order, and keeps with their rows a *cursor*: the release that it delivered
last. Read `step` first, then `sink`.
"""
