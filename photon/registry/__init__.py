"""The registry as ledgers: which batch holds each foreign event's id.

A *ledger* is a sequence of positions, each decided once (`positions`). A position's value is an *entry*:
claims of ids, closes of batches, a boundary, a seal (`entry`), stored as docs/ledger-format.md says (`form`).
`fold` says what an entry means after those before it in its ledger, and `holds` keeps who holds which id.
`view` folds all ledgers of all generations, as far as a process has read them. Those who append: `appending`
for one entry, and for a ledger's opening and its seal; `closing` for batches and epochs that end, and for
joins whose rows are gone; `generations` for the next one, the boundary, and what lies below it; `refilling`
for rows that are put back.
`view_store` keeps a view on disk, its holds in files (`segments`).

A join claims by an `id_registry`, numbers and ends its `epochs`, and gives its tasks snapshots (`lookups`).

Read `entry` first, then `fold`. Stores and threads belong below `stores` alone. After the paper's PaxosDB and
its batching of commits (sections 3.1, 3.2).
"""
