// Package loop runs an fsm.Driver. One goroutine, the Owner, feeds events to the machine and makes its decisions
// durable. The Runner carries out the resulting effects.
//
// # Invariants
//
//   - Only the owner's goroutine touches the machine. All others send it events, or read it through Look.
//   - An acknowledgement or an effect waits until its facts are in the journal.
//   - Durable effects of one task run one after another. Their outcomes are events.
//   - A refused or lost append ends Run. The caller then rebuilds the machine from the journal.
//
// # Clock
//
// The owner stamps every event with a Clock that follows the monotonic clock and never goes back. The Clock starts at
// wall time, or at the time of the previous leader. If the wall clock ran ahead because the machine was suspended, or
// if the owner could not run, the owner offers fsm.DirectorResumed before the next event.
package loop
