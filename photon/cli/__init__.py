"""The `photon` command: one module a command, each imported when it is called.

Commands only read arguments and print; the work is done in the other rooms.
"""
