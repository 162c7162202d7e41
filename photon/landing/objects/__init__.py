"""Landing of objects: each object of a store becomes one log file, whole or not at all.

A `lander` lists what the store has (`source`), writes the lines of each object that is new (`contents`) under
a name that key and ETag decide (`names`), and remembers it (`known`) while the store lists it. What it could
not land it tells in its `marker`, which joins go by: while an object waits, they call nothing complete.
`to_land` has them landed beside topics. Read protocol K8 to K11, then `lander`.
"""
