// Package github joins the parts of Retake's connection to GitHub.
//
//	Client ─▶ inbox, approval, claims, deliver, ask ─▶ tracker, pages ─▶ api ─▶ gate ─▶ GitHub
//
//	gate      rate limits, spacing of writes, outages
//	api       requests of one credential: tokens, conditional requests, errors
//	tracker   issues, comments with markers, labels and their history, permissions
//	pages     the texts that people read on GitHub, without secrets
//	command   commands in comments
//	inbox     polls, comments, answers, dependencies, webhooks, tasks found on GitHub
//	approval  the text of an issue as a person approved it
//	claims    claiming, progress, release
//	deliver   branches, pull requests and their reviews
//	ask       questions, replies, reminders, incidents
//
// # Invariants
//
//   - Every request passes the gate of its credential. While a resource is closed, the caller gets an *api.Error of
//     kind rate_limited with the deadline at once.
//   - Without api.Options.Writes the transport refuses every request that would change something.
//   - Every operation may be repeated after a crash at any point. It finds its own comments by their marker and author
//     before creating them, and reads labels before changing them, so a repetition does not cause a second comment or
//     label event.
//   - Everything is redacted before it is posted, and markers in untrusted text are defused (package pages).
//
// # Claims
//
// The claim comment is the lock. Of the trusted claims after the latest release marker, the claim with the lowest
// comment id wins, regardless of fleet and credential. A delivered task's marker has ended and no longer counts, unless
// the pull request is watched. In that case the claim lasts until the merge or the release. Our own account is trusted,
// and so are people with write access and an association in Options.TrustedAuthors. GitHub does not promise that lists
// contain recent writes. If our comment cannot be read back, the claim is not won but fails with a transient error.
//
// Any trusted author may reclaim a claim whose comment is stale, because it has not been edited recently. Only the
// first of several release markers for one claim counts, so two directors that reclaim at once cannot end a third
// director's claim.
//
// # People
//
// An answer counts only from a person with write access. The permission is read per person and cached for minutes. Bots
// are not people. A comment by our own account without a marker counts as a comment by a person, because a director
// marks every comment. Our thumbs-up records which text of a comment was carried out.
//
// # Deliveries
//
// The text of a pull request is ours while it carries our marker, and every delivery rewrites it. Its title is set only
// once, when the pull request is opened. Texts that may become a commit message cannot close issues or skip checks. A
// watched pull request is read only by conditional requests, which do not count against the hourly limit while it is
// unchanged.
//
// # Clock and failures
//
// The clock is time.Now. Absolute deadlines are compared with the Date header of the same answer, so a wrong clock on
// either side does not shift them. This package does not retry. The kind of an error determines the reaction of the
// caller. Answers are bounded in size, lists in pages.
package github
