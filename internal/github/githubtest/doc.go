// Package githubtest is a stand-in for GitHub: the part of its API that a director uses, git over HTTP for real bare
// repositories, and pages on which a person can read and answer. It provides an http.Handler, and an in-process
// RoundTripper that works without sockets inside testing/synctest. The program cmd/githubsim serves the handler.
//
//	/api/v3/…            the API; tokens of known users only
//	/api/graphql         mutations of labels, comments and pull requests, validated with schema.graphql
//	/owner/repo.git/…    git over HTTP (only with Options.DataDir)
//	/owner/repo, …/issues/1, …/pull/2    pages for a person, who acts as Options.Person
//
// /_sim/requests and /_sim/events list requests and changes as JSON, and POST /_sim/faults injects a fault.
//
// Invariants: answers follow GitHub's OpenAPI description. Ids are sequential, and times come from Options.Now in whole
// seconds, so the same calls produce the same answers. The server enforces the primary limit that the rate headers
// state. It counts every request that arrives before the end of a limit as a violation.
//
// Pull requests follow their branches. With git, conflicts are real and a merge is a commit. Without git, branches are
// only names with made-up commits (Push, SetConflict). As on GitHub, the first request after a change does not show
// whether a pull request can be merged. Comments, reviews, pushes, merges and closing change a pull request's
// updated_at, but checks do not. The package does not support forks, merges by rebase, pending reviews, teams, and the
// suite and app of a check run.
//
// The clock is Options.Now. The state is in memory only, unless Options has a state file. In that case the server
// writes every change to the file before it answers, and calls Options.StateLost if it cannot write the file. A
// well-formed request fails only because of a fault or a limit.
//
// The package imports the standard library, gqlparser for GraphQL and goldmark for the pages. Of this module, it
// imports only package gate, for the list of requests that create content. It does not share other code with the
// client, so tests detect where the client deviates from GitHub's description.
package githubtest
