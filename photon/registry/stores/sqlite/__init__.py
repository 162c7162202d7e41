"""The local registry: the stores of all pipelines of a folder, in one SQLite file of this machine.

Every process opens the file itself, and no server runs. A request is one transaction: it takes `write.lock`,
opens the file, commits, closes it and frees the lock. Between requests a process holds nothing: neither a
connection nor a descriptor. So a folder that is replaced under it, a copy that is written over the file, a
fork and a process that is killed are nothing special.

**The lock is our own** (`lock`). SQLite's locks are a process's, and are gone once any code of that process
opens and closes the file. Ours is `flock`, of a descriptor: it keeps threads out too, and a dead process
leaves none. SQLite's own locks stay beneath it, for who opens the file with another program.

**There is no write-ahead log.** It lies beside the file under a name of its own, with an index that processes
share. Where somebody removes or replaces one of the three, two processes commit to two of them: both are told
that they won (record 83). A rollback journal is empty between transactions. It costs five syncs a commit
in place of one, and each is on the disk before the answer (`synchronous=FULL`).
"""
