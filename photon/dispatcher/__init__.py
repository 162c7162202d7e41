"""Plan batches, carry each one through, and store what is still to be done.

Tasks are in `photon.join`; `photon.shift` runs the dispatcher.
"""
