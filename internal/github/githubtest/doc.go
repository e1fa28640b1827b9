// Package githubtest is a stand-in for GitHub: the part of its REST API that a director uses, git over HTTP for real
// bare repositories, and pages on which a person can read and answer. It is a library: an http.Handler, and an
// in-process RoundTripper that works without sockets inside testing/synctest. cmd/githubsim is the same as a program.
//
//	/api/v3/…            the API; tokens of known users only
//	/api/graphql         mutations of labels, comments and pull requests, held to schema.graphql
//	/owner/repo.git/…    git over HTTP (only with Options.DataDir)
//	/owner/repo, …/issues/1, …/pull/2    pages for a person, who acts as Options.Person
//
// /_sim/requests, /_sim/events list requests and changes as JSON, and POST /_sim/faults injects a fault.
//
// Invariants: answers have the form of GitHub's OpenAPI description. Ids are counted and times come from Options.Now in
// whole seconds, so the same calls produce the same answers. Rate headers are true, because the primary limit is
// enforced. Every request that arrives while a limit is in force is counted as a violation.
//
// Pull requests follow their branches. With git, conflicts are real and a merge is a commit. Without git, branches are
// names with made-up commits (Push, SetConflict). After a change the first request does not learn whether a pull
// request can be merged. A check does not change a pull request's updated_at. Comments, reviews, pushes, merges and
// closing do. Not supported are forks, merges by rebase, pending reviews, teams, and the suite and app of a check run.
//
// The clock is Options.Now. State is in memory and ends with the process, unless Open was given a state file. In that
// case a change is in the file before it is answered, and Options.StateLost is called if it cannot be written. A
// well-formed request fails only if a fault was injected.
//
// It imports the standard library, gqlparser for GraphQL and goldmark for the pages. It does not import packages of
// this module, so only GitHub's own description connects it with the client.
package githubtest
