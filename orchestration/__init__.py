"""When things run: the definitions, sensors and schedules of one code location.

`definitions` puts a location together. Sensors gather facts, ask a pure function such as `shift_decision`,
and hand its decision to Dagster; `schedules` runs what goes by the clock. No work is done here. `demo` shows
all of it on one machine. Read `definitions` first.
"""

from photon.process.extras import need_extra

need_extra("dagster")
