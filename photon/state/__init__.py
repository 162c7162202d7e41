"""The memory of a datacenter, by which its dispatcher goes on after a crash as if nothing had happened.

One SQLite database has files and offsets, the open plan and its attempts, counts, and what became of
waiting records. `database` has its tables and reads it as of one moment, `view` is for all who look from
outside, and `dispatcher_state` is the only writer; read these three first. `plan`, `lifecycle`, `outcomes`
and `window` are what is stored, and pure. Beside the database lie a `timeline` of when logs grew and
batches were readable, and a note of the `losses` that people know of. `waiting` has the records that wait,
`completeness` says up to which event time rows are complete, and `points` tell how joins went over time.
The work itself is in `photon.dispatcher`.
"""
