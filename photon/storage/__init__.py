"""Delta tables in a folder or on S3: tasks write files, the driver commits them, and anybody reads rows back.

`store` has the objects of one location, here or by `s3`. `delta` opens tables. `followed_table` reads one on
and on, and `tables` has those of a datacenter, whose commits carry the number of their batch. Tasks write
`candidate_files` and `output_files`; `append_table` and `replacing` commit what is no batch. `compaction`,
`vacuum` and `archived_log` keep tables fit. `tokens` are the names of rows, by plan and record; the rooms
that make rows say what else they mean. Read `tables` first.
"""
