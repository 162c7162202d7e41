"""Plan batches of one datacenter, and carry each one through until its rows are readable and it is closed.

`dispatcher.Dispatcher` is a loop: it tends what waits in the background, looks at the logs (`log_reader`;
`file_messages` says what became of them), plans (`planning`) and has the plan run. A
`batch.BatchExecution` runs one plan with the parts that `batch_tools` has wired together, and its
`_attempt` is the order of all steps: tasks (`task_splitter`), claims (`claiming_rounds`), commits
(`committing`), the change of the state (`completion` decides, `table_answers` asks), and later the close
(`closing_batches`). Beside them readers get releases (`releasing`). Waiting records are merged
(`waiting_upkeep`), mended (`waiting_repair`) and ordered again (`taking_orders`) between batches.

Read `dispatcher.py` first, then `batch.py`. Tasks run in `photon.join`, and what is stored is in
`photon.state`. `recovery` deals with other datacenters, `shift` runs a dispatcher for a while.
"""
