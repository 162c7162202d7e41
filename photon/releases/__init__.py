"""One truth for all readers: numbered cuts through the tables of all datacenters.

A release says of each datacenter up to which batch its rows count, and up to which event time all of them are
complete. `parts` counts these rows in the lakes, and `unmatched_runs` those of primaries without an event;
`making` decides what the next release says, `numbering` has the registry decide its number, and `copies`
keeps it in each lake. Joins do so on and on, and commands `at_once`, when they have changed rows.

Readers ask no registry: `finding` looks for a release among the copies, `reading` opens the tables, and
`files` chooses its rows, where tables have gone on. `datasets` has them as pyarrow's, `views` shows events of
side tables once, and `sql` has all of it in DuckDB, by a `file_system` that only reads. Read `release` first.
"""
