// Package gate decides when a request to GitHub may be sent. It orders waiting requests by urgency and age, spaces
// writes, keeps the process below GitHub's documented limits, and refuses requests while a limit or an outage closes a
// resource.
//
//	Enter ─▶ closed? ─▶ own hourly budget ─▶ turn (age, by lane) ─▶ request ─▶ Leave
//
// The turn of a request begins when the gate admits it, and ends when the caller calls Leave.
//
// # Invariants
//
//   - While a resource is closed, the gate refuses every request for it. The caller gets *Refused at once.
//   - A cooldown closes the gate before OnCooldown reports it. Prime restores cooldowns from the journal without
//     a report.
//   - The gate admits one write at a time, at least Options.Between after the previous write ended. The first write
//     waits for the same time after New, so a process that crashes repeatedly does not write faster.
//   - Less urgent requests do not overtake a request that waits for the points budget, so cheap reads cannot starve an
//     escalation.
//
// # Cooldowns
//
// A primary limit (5,000 requests an hour) belongs to the credential and closes reads and writes. A secondary limit
// also closes both, although it usually concerns only writes, because GitHub may ban an integration that keeps sending
// requests while it is limited. The gate also counts new content itself. When its count approaches the hourly limit, it
// first closes claims, then all new content except escalations. It closes all writes once escalations have used the
// reserve. After three requests without an answer, or after one refusal of the whole account, the gate closes the whole
// API and admits one request at a time as a probe (silence.go).
//
// The clock is time.Now. The gate does no I/O. It calls OnCooldown in the goroutine of a request, or in the goroutine
// of its timer.
package gate
