// Package whatif replays a journal under another configuration, and compares the verdicts with the recorded ones.
//
// A Follower applies the facts of a journal in order to a separate machine, like a restart does. At each verdict it
// decides again with the preceding state. It calls fsm.Machine.Redecide, the function that the director uses. While a
// claim takes the same course, the machine is charged for the other policy's verdicts, because their counters and
// meters may differ.
//
// A what-if ignores unknowable consequences. After the first verdict on a claim that leads elsewhere (another action,
// or another kind of attempt), the claim would have had another history: later verdicts on it are counted, not
// compared. Other tasks, incidents, cooldowns and times stay as recorded, although extra attempts or longer waits would
// have changed them.
//
// Clock: the records'. Invariant: there are no differences under the configuration that produced the journal. Failure
// policy: none, because every fact can be replayed.
package whatif
