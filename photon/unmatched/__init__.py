"""Primaries that no foreign event was joined with, written to a table of the one datacenter that owns them.

`deciding` says up to when they are due and which of them a run looks at; `candidates` finds these in the
index of primary events, and drops those that some row names; `lines` reads what is left, and `reasons` says
why nothing was joined with it. `lakes` opens the tables that a run goes by, and `run` puts all together.
Rules: docs/protocol.md, U.
"""
