// Package githubtest is a stand-in for GitHub: what a director uses of its REST API, git over HTTP for real bare
// repositories, and pages on which a person can read and answer. It is a library (an http.Handler, and an in-process
// RoundTripper that needs no socket and so works inside testing/synctest); cmd/githubsim is the same as a program.
//
//	/api/v3/…            the API; tokens of known users only
//	/owner/repo.git/…    git over HTTP (only with Options.DataDir)
//	/owner/repo, …/issues/1, …/pull/2    pages for a person, who acts as Options.Person
//	/_sim/requests, /_sim/events         what was asked for and what changed, as JSON; POST /_sim/faults injects one
//
// Invariants: answers have the form that GitHub's OpenAPI description gives them; ids are counted, times come from
// Options.Now in whole seconds, so that the same calls give the same answers; rate headers are true (the primary limit is
// enforced) and every request that arrives while a limit is in force is counted as a violation.
//
// Clock: Options.Now. Failure policy: state is in memory and ends with the process, unless Open was given a state file: then a
// change is in the file before it is answered, and a file that cannot be written is told to Options.StateLost. A fault
// that was injected is the only way in which a well-formed request fails.
package githubtest
