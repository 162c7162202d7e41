"""Landing: the messages of a broker's topics become lines of log files, which joins read as any others.

A `lander` reads one topic and appends to a file for each partition, then syncs the files, then says in its
*marker* how far they are. Whoever starts it again compares what lies behind the marked place with the
messages from there on (`partition_file`): so nothing is lost or written twice, whatever was killed. What the
broker no longer has is a `Loss`, and stops its partition until somebody acknowledges it. `topic` is what
is asked of a broker, and `kafka` asks a real one; `beginning` decides where to go on. `service` runs all that
a datacenter lands: its `topics` and `objects`, which `sources` lists. Joins go by the `marker` alone: a
partition whose end is not known holds back what they call complete. Read `marker` first, then `lander`.
"""
