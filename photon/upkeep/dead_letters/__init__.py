"""Dead letters that are still open: list them, mend their lines, try and join them again.

Where a joiner writes a dead letter is `join`; where mended lines are kept is `storage`.
"""
