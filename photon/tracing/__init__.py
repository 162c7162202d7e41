"""Tell the whole story of one event: where it was read, each try, its holder, its row, what to do.

Reads logs, state, registry and tables; changes none of them.
"""
