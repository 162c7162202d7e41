"""Profile: what `photon init` finds out about logs that nobody has described yet.

`sample` reads a bounded part of both logs (`pieces` of long files); `file_format` tells how their text is
written. `column` describes the values of each column, and `column_names` judges its name. `column_roles`
decides which columns are ids, keys and times, with `foreign_keys`, `event_ids` and `event_times`; each
answer is a `Finding` or a `Question` to the user (`findings`). `proposal` writes the pipeline file, with
`column_types`, and `trial_join` joins the samples by it. Only `sample` and `pieces` read files. Read
`sample` and `column_roles` first.
"""
