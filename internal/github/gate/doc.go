// Package gate decides when a request to GitHub may leave. It orders waiting requests by urgency and age, spaces
// writes, keeps the process below GitHub's documented limits, and refuses requests while a limit or an outage closes a
// resource.
//
//	Enter ─▶ closed? ─▶ own hourly budget ─▶ turn (age, by lane) ─▶ request ─▶ Leave
//
// # Invariants
//
//   - While a resource is closed, no request for it leaves. The caller gets *Refused at once instead of sleeping.
//   - A cooldown closes the gate before OnCooldown reports it. Prime restores cooldowns from the journal without
//     a report.
//   - Writes leave one at a time, at least Options.Between after the previous one ended. The first write waits that
//     long after New, so a crashing process does not write faster than a healthy process.
//   - A request that waits for the points budget is not overtaken, so cheap reads cannot starve an escalation.
//
// # Cooldowns
//
// A primary limit (5,000 requests an hour) belongs to the credential and closes reads and writes. A secondary limit
// also closes both, although GitHub mostly means writes, because continuing while limited may get the integration
// banned. Our own hourly budget of new content closes less, because GitHub has not objected yet. It first closes
// claims, then new content that is not an escalation, and all writes only after escalations have used the reserve.
// After three requests without an answer, or one refusal of the account as a whole, the whole API is closed, and one
// request at a time probes it (silence.go).
//
// The clock is time.Now. The gate does no I/O. A timer of the gate calls OnCooldown if its pause ends in a refusal.
package gate
