"""The ground floor: what a process has of its machine, whatever it does for Photon.

`clock` is its time and how a time is written; `measures` and `quantiles` count and time its own work. `pace`
and `readable` put amounts and texts into words for people. `in_time` asks questions that may hang, on threads
of their own. `operating_system` and `lifeline` are what Linux tells of processes, and how one ends with
another. `faults` names the points at which tests let a process die. `errors` has those that a user can mend,
and the exit status of each. None of them knows another room; read `clock` first.
"""
