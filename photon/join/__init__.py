"""Run the tasks of a batch: index primary ranges, and decide on each foreign record of others.

`tasks.run_task` reads what a task names, and turns all that goes wrong into a value of `messages`. For a join
task it hands `records` (columns of Arrow) to `joiner.Joiner`: it looks up who holds each of their `events`
(`deciding`), finds its primary, has the user's adapter combine both (`adapting`), stores the rows
(`candidates`), and proposes them as claims. Records that wait go to segments (`waiting_records`), the others
become rows of their tables (`records`). `left_out` takes rows out again that another task of the batch has
won.

Read `messages.py` first, then `joiner.py`. Which records a task gets, and what becomes of its results, the
dispatcher decides; no task asks the network for anything but logs and tables.
"""
