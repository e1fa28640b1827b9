// Package github joins the parts of Retake's connection to GitHub.
//
//	Client ─▶ inbox, approval, claims, deliver, ask ─▶ tracker, pages ─▶ api ─▶ gate ─▶ GitHub
//
//	gate      rate limits, spacing of writes, outages
//	api       requests with one credential: tokens, conditional requests, errors
//	tracker   issues, comments with markers, labels and their history, permissions
//	pages     the texts that people read on GitHub, without secrets
//	command   commands in comments
//	inbox     polls, comments, answers, dependencies, webhooks, tasks found on GitHub
//	approval  the text of an issue as approved by a person
//	claims    claiming, progress, release
//	deliver   branches, pull requests and their reviews
//	ask       questions, replies, reminders, incidents
//
// # Invariants
//
//   - Every request passes the gate of its credential. If it needs a closed resource, the caller immediately gets an
//     *api.Error of kind rate_limited with the deadline.
//   - Without api.Options.Writes, the transport refuses every request that would change something.
//   - Every operation can be repeated after a crash at any point. It searches for its own comments by marker and author
//     before it creates them, and reads labels before it changes them. So repeating it does not cause a second comment
//     or label event.
//   - Package pages redacts every text before it is posted, and escapes markers in untrusted text.
//
// # Claims
//
// The claim comment is the lock. Of the trusted claims after the latest release marker, the claim with the lowest
// comment id wins, regardless of fleet and credential. The delivery ends a claim, unless Retake watches the pull
// request. In that case the claim lasts until the merge or the release. The trusted authors of claims are our own
// account, and people with write access and an association in Options.TrustedAuthors. GitHub does not guarantee that
// lists contain recent writes. If our comment cannot be read back, claiming fails with a transient error.
//
// Any trusted author may reclaim an issue if the claim comment is stale, which means that it was not edited recently.
// Only the first of several release markers for one claim counts. So if two directors reclaim at the same time, they
// cannot end the claim of a third director.
//
// # People
//
// An answer counts only if it comes from a person with write access, and bots are not people. Each person's permission
// is cached for minutes. A comment by our own account without a marker counts as a comment by a person, because a
// director adds a marker to each of its comments. The director's thumbs-up on a comment records that it carried out the
// command.
//
// # Deliveries
//
// Every delivery rewrites the text of the pull request, as long as the text contains our marker. It sets the title only
// when it opens the pull request. Texts that can become a commit message cannot close issues or skip checks. A watched
// pull request is read with conditional requests. Most of them do not count against the hourly limit while it is
// unchanged.
//
// # Clock and failures
//
// The clock is time.Now. Absolute deadlines are compared with the Date header of the same answer, so a wrong clock on
// either side does not shift them. This package does not retry. An error's kind determines how the caller reacts. The
// size of an answer and the number of pages in a list are limited.
package github
