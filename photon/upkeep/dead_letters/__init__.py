"""Dead letters that nobody has looked at again: list them, mend their lines, have them joined.

`open_letters` finds them in the lake and plans orders for those that are whole records; `mending` puts a
person's lines in their places; `trial_join` says what would come of them. A dispatcher that finds such an
order joins the record in its place. Where a joiner writes a dead letter is `join`; mended lines are kept by
`storage`.
"""
