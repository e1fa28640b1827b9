// Package loop runs fsm.Driver: one goroutine, the Owner, hands the machine what happens and makes its
// decisions durable; the Runner carries out the effects that follow.
//
// # Invariants
//
//   - One goroutine touches the machine. Everything else sends it events, or looks at it through Look.
//   - Nothing is acknowledged and no effect runs before its facts are in the journal.
//   - Durable effects of one task run one after the other. Their outcomes are events.
//   - A journal that refuses or loses an append ends Run. The machine is then discarded and read again.
//
// # Clock
//
// The owner stamps every event with a Clock that follows the monotonic clock and never goes back. It begins at
// wall time, or at the time of the director that led before. When the wall clock ran ahead (a suspended
// machine), or the owner could not run, the owner offers fsm.DirectorResumed first.
package loop
