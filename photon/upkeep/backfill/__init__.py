"""Backfill: some days filled in, or their rows made again, while live rows arrive (protocol E3, E4).

A fill is recovery by days: it verifies a window, and leaves work orders for the dispatcher. A rebuild has
`plan` cut the table's files into pages and pieces; tasks make the rows of each piece again (`remaking`, which
reads `records_at` their `places_today`, and has the registry decide on `rows_in_doubt`), and `rebuild`
commits page by page and notes its `progress`. Read `fill` and `rebuild` first. The Spark program that runs
the tasks is in `jobs`. Nothing here registers an id.
"""
