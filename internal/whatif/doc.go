// Package whatif replays a journal under another configuration, and compares the verdicts with the recorded ones.
//
// A Follower replays the facts of a journal in a separate state machine, as a restart does. At each verdict, it decides
// again from the state before that verdict, using fsm.Machine.Redecide, which the director also uses. The other
// policy's verdicts can change counters and meters. The Follower therefore applies them to the machine as long as that
// policy takes the same actions for a claim.
//
// A what-if ignores consequences that cannot be known. A different action, or another type of attempt, would have
// changed the claim's later history. After the first such verdict, the Follower counts later verdicts on the claim but
// does not compare them. Other tasks, incidents, cooldowns and times stay as recorded, although more attempts or longer
// waits would have changed them.
//
// The times of the records are the only clock. Invariant: under the configuration that produced the journal, all
// verdicts are equal. A replay cannot fail, so the package has no failure policy.
package whatif
