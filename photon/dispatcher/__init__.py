"""Plan batches, carry each one through, and keep the index and the waiting records in order.

Tasks are in `photon.join`, what is stored in `photon.state`; `photon.dispatcher.shift` runs the dispatcher.
"""
