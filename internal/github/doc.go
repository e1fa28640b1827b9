// Package github is Retake's only connection to GitHub. It polls issues, claims them, keeps one progress comment per
// claim, escalates to people and reads their answers, releases issues, delivers results and reads what became of them.
//
//	Client method ─▶ lane (urgency) ─▶ gate (limits, pacing) ─▶ transport (token, ETag, redirects) ─▶ GitHub
//
// # Invariants
//
//   - Every request passes the gate of its credential (package gate). While a resource is closed, the caller gets an
//     *Error of kind rate_limited with the deadline at once.
//   - Without Options.Writes no request other than GET leaves: the transport refuses it, whatever the caller does.
//   - Every operation may be repeated after a crash at any point. What it writes is looked up by marker and author before
//     it is created, and labels are read before they are changed: a repetition makes no second comment and no second
//     label event.
//   - Nothing is posted unredacted, and no marker in foreign text survives (markdown.go).
//
// # Claims
//
// The claim comment is the lock. Of the trusted claims after the latest release marker the lowest comment id
// wins, whichever fleet or credential wrote it. The marker of a delivered task has ended and no longer counts,
// unless its pull request is watched: then it goes on until that is merged or the claim released. Trusted are
// our own account and the associations in Options.TrustedAuthors with write access; GitHub Apps of others
// usually are not. That GitHub's lists contain what was just written is practice, not contract: a comment that
// we wrote and cannot read back is a transient error, never a won claim.
//
// A claim whose comment has not been edited for long may be reclaimed by any trusted author. Of several release markers
// for one claim only the first counts, so that two directors who reclaim at once cannot end the claim of a third.
//
// # People
//
// An answer counts only if it comes from a person who has write access, which is asked per person and cached
// for minutes. A bot is no person. Our own account is one if its comment has no marker, because all that we
// write has one: then it is the person whose token we use. Our thumbs-up records which text of a comment was
// carried out.
//
// # Deliveries
//
// A pull request's text is ours while it carries our marker, and is rewritten by each delivery; its title is
// ours only when it is opened. Texts that may become the message of a commit close no issue and skip no checks.
// A watched pull request is read by conditional requests alone: while nothing changes, reading it costs nothing
// of the hourly limit.
//
// # Clock and failures
//
// The clock is time.Now. Absolute deadlines are compared with the Date header of the same answer, so that a
// wrong clock on either side does not shift them. One request is one attempt: nothing is repeated here, the
// kind of an Error tells the caller what to do. Answers are bounded in size, lists in pages.
//
// Imports: go-github, zap, and of this module only packages redact, spelling and recovery/plaintext; never
// another adapter.
package github
