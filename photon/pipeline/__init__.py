"""The pipeline file: its keys and values, and messages that name line and key where one is wrong.

`sections` has the keys of each section, `file` those of the file itself and how it is read; `values` has the
types of single values, `cron` and `location` two that need more words. `document` keeps the line of each key
for messages. `event_time` says what time an event has; `remembered` which keys may change while a datacenter
has a state. Read `sections` first. What is done with a pipeline belongs in the other rooms.
"""
