"""Records that wait: why and until when, the immutable segments that hold them, and what became of each.

A batch writes the records that it could not join to one segment, sorted by when they are due (`segments`,
for `reasons`). A segment never changes. The state database keeps two bits for each of its records
(`states`): one `listed_segment` is both together. `waiting_view` looks at all listed segments,
`waiting_list` changes them within a transaction of the dispatcher, `retries` are the records that a plan
takes up, and `merging` keeps segments few. Read `segments`, then `listed_segment`.
"""
