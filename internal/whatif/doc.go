// Package whatif replays a journal under another configuration, and compares the verdicts with the recorded ones.
//
// A Follower applies the facts of a journal in order to a separate machine, as a restart does. At each verdict it
// decides again with the preceding state. It calls fsm.Machine.Redecide, the function that the director uses. While a
// claim takes the same course, the machine is charged for the other policy's verdicts, because their counters and
// meters may differ.
//
// A what-if ignores unknowable consequences. A different action, or another kind of attempt, would have given the claim
// another history. After the first such verdict, later verdicts on the claim are counted, not compared. Other tasks,
// incidents, cooldowns and times stay as recorded, although extra attempts or longer waits would have changed them.
//
// The times of the records are the only clock. Invariant: there are no differences under the configuration that
// produced the journal. There is no failure policy, because every fact can be replayed.
package whatif
