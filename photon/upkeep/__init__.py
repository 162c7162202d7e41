"""The verbs: all that people and schedules do to a pipeline beside its joins.

Each verb has a function that plans and a plan that is applied; a dry run only tells what is expected of the
plan. `plans` says how, and what happens if joins have changed the registry in between: read it first. Verbs
on the registry are `gc` (drop old ids), `reshard` (another number of ledgers), `repair` (fill an endpoint),
`refill` (put the ids of all rows back) and `retire` (give a datacenter up; `retirable` says whether one can
be); `registry_state` measures what they go by. `compact` keeps tables fit, and `unasked_rows` says which rows
of reports leave then; `recovery` has what a verification found looked at again, `backfill` fills in days or
makes their rows again, and `dead_letters` mends lines.
Joins are the dispatcher's alone: a verb leaves it work orders.
"""
