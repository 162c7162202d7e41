"""Log formats: from the bytes of records to columns of text.

`lines` splits bytes into lines and has `LineReader`, which every format whose lines name their own values
implements. `line_formats` registers them: `json_lines` is Photon's own (with `json_blocks` for many lines
at once), others are classes of users. CSV and TSV are read by `csv_lines`: `dialect` has their settings,
and `records` finds where a record ends whose quoted values hold line ends. `times`
reads times of day. Nothing here opens a file. Read `lines` first.
"""
