// Package whatif reads a journal under another configuration: what would have been decided about the failures
// that are recorded in it?
//
// A Follower takes the facts of a journal in order and applies them to a machine of its own, as a restart does.
// At each verdict it decides once more, with the state as it was just before, by fsm.Machine.Redecide: the
// function by which the director itself decides. While a claim goes on as it did, the machine is charged by the
// other policy's verdicts, whose counters and meters may be others.
//
// What a what-if cannot know it does not judge. After the first verdict on a claim that leads elsewhere
// (another action, or another kind of attempt), the claim would have had another history: later verdicts on it
// are counted, not compared. The other tasks, the incidents, the cooldowns and the times are taken as they
// were, although an attempt more or less, or a longer wait, would have moved them.
//
// Clock: the records'. Invariant: with the configuration that a journal was written by, nothing differs.
// Failure policy: there is none, every fact can be followed.
package whatif
