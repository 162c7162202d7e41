"""The `photon` command: one module a command, each imported when it is called.

Commands only read arguments and print; the work is done in the other rooms.
"""

from photon.cli.beginning import is_photon, let_interrupts_end

if is_photon():
    let_interrupts_end()  # here, since `photon.cli.main` imports click first: 50 ms
