"""Positions of ledgers, and the register, in one, three or five stores with the DynamoDB API.

Each position is a consensus of its own, as Fast Paxos has it, over n independent stores; q = n//2 + 1 are a
majority, f = 3n/4 (rounded up) a fast quorum. A store keeps one item a position, its *copy*: the value, the
ballot at which it was accepted (none: by an insert), the ballot promised. Rules B are those of
docs/protocol.md, rules L those of the ledgers.

**Offering** (`rounds`). A writer inserts its value at all stores. A store that has an item refuses and
returns it. f copies of one value without a ballot, or q at one ballot, prove it chosen (B3). Else a ballot
decides: *prepare* promises it and returns the copy before; of q promises the writer goes on with the only
value that may be chosen already, or with its own (B4); it reads the register, for the members may have
moved (B11), and *accepts*. A store that throttles is asked again (B14). Each offer has a proposer of its
own, since a second value of one writer at one ballot would be two values at it.

**Reserving** (`rounds`). Where fewer than f stores will answer, an offer begins with the ballot, and its
accept prepares p + 1 in the same step: after the check the next offer need only accept (B13). So does a
writer that was outrun twice more than it won, with its prepare: or else the nearest writer wins for ever.

**Reading** (`reading`) writes nothing. Who offers at p + 1 has confirmed before that p is decided, and his
value has the checksum of the one at p (L1). So each intact copy at p + 1, chosen or not, says that p is
decided and which copy of it is right: one copy from the nearest store is enough. The last position alone
needs proof by its copies, and "nothing is there" needs q stores that say so: a decided value is at q at
least, so one of them would have it.

**A check** (`register_store`) reads the register at a majority. An attempt keeps to the stores that it
began with. If members or incarnation are others at its end, nothing that it brought counts.

Sequences of events that would break it, and why they do not:

- *A late insert* comes after a ballot has decided: a promise is an item, so the insert is refused where one
  was made; elsewhere it stays a copy of a minority, which proves nothing. After the ledger was forgotten it
  lies about as an orphan, and the check says that the generation is dropped.
- *One of three stores is down while a new view is made*: every position but the last has a successor. The
  last one, if an insert decided it, has two copies, which is no proof; it is undecided until somebody
  offers there.
- *A copy is damaged*: it is no reply, neither a value nor an absence (L2). A promise of such a store does
  not count either, for what it had is unknown. Accepting mends it. With too few intact replies nobody is
  told that nothing is there.
- *Members change within an attempt*: the value is chosen at old stores only. The check at its end, begun
  after the last reply, finds the newer version. Between prepare and accept there is one too, or the accept
  would undo what was chosen at the new store.
- *A writer sleeps between reply and check*, through a repair: the same. It sleeps after the check and
  offers at p + 1 at old stores: what it says of p was confirmed, so repair has carried it over, and its
  copies are late inserts.
- *A writer sleeps on a reservation*, through a repair: under the old members he may accept still. But p was
  decided, and p + 1 promised, before the members moved: so the entry that the repair appends behind p has a
  higher ballot than his, at a store that every majority meets.
- *A reserved position is left alone*: who comes upon it waits twice, then takes a higher ballot.
- *An attempt is made anew with other bytes* at one position: both are copies of a minority, and one is
  chosen.
- *A store lost its table*: it does not answer, and only `making` makes tables, under new names.
- *An absence is a page's end*: a position counts as absent only within what the store has looked through
  (B8).

Not prevented: a store put back to an older copy of itself forgets promises (B10). Views notice it (L10).
Where a ballot is free it proposes another's value before the own one, so that with three stores a forgotten
copy alone replaces no decided value.
"""
