"""Plan batches, carry each one through, and store what is still to be done.

What a task does belongs in `photon.join`; who runs the dispatcher belongs in `photon.shift`.
"""
