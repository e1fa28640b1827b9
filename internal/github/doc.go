// Package github is Retake's only way to GitHub: it polls issues, claims them, keeps one progress comment per task,
// escalates to people, gives issues back and delivers results.
//
// Invariants:
//
//   - Every request passes one gate per credential. While a resource is shut no request for it leaves the process; a
//     caller gets an *Error of kind rate_limited with the deadline at once instead of sleeping. The gate shuts itself
//     before it reports the cooldown, and Prime restores what a journal remembers.
//   - Writes leave one at a time and at least MinBetweenWrites after the answer to the one before.
//   - Without Options.Writes no request other than GET leaves, whatever the caller does: the transport refuses it.
//   - Every operation may be repeated after a crash at any point. What it writes is found by marker and author before
//     it is created, and labels are read before they are written: a repetition causes no second comment and no second
//     label event.
//   - Nothing that people read is posted unredacted (see redact.go), and no marker in text from outside survives.
//
// Cooldowns. A primary limit (5,000 requests an hour) belongs to the credential and shuts reads and writes. A secondary
// limit shuts both as well, although GitHub mostly means the writes: going on with anything while limited may get
// the integration banned, and it cannot be asked what a secondary limit still allows. Only our own hourly budget of
// content creation, which GitHub has not objected to yet, shuts writes alone.
//
// Claims. The claim comment is the lock: of the trusted claims after the latest release marker the lowest comment id
// wins, whichever fleet or credential wrote it. A claim whose task was delivered says so in its marker and competes no
// more. Comments count only from ourselves and from authors with write access (Options.TrustedAuthors); GitHub
// Apps of others are usually not among them. GitHub's lists are read-your-writes in practice, not by contract: a
// comment that we wrote and cannot read back is a transient error, never a won claim.
//
// Humans. What people say counts only with a positive human identity (a user, not a bot, not ourselves, no comment with a
// marker) and write access, asked for per person and remembered for minutes. A command is the first line of a comment that
// its author says (see readCommand). Our thumbs-up is the record that a comment was acted on: edits after it change nothing.
//
// Reclaims. A claim whose comment nobody has edited for long may be ended by anybody whom we trust, once: of several
// release markers for one claim only the first counts, so that two directors who reclaim at the same time cannot end the
// claim of a third.
//
// Clock: time.Now, compared with the Date header of each answer when a deadline is an absolute time, so that a wrong
// clock on either side does not shift it.
//
// Failure policy: one request is one attempt; nothing is repeated in here. Errors say what kind they are, and whoever
// asked decides. Answers are bounded in size, lists in pages.
package github
