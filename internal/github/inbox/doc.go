// Package inbox reads what has changed in repositories: issues, comments, dependencies, and the tasks that a director
// without a journal finds on GitHub. It writes nothing. Polls are conditional requests, which cost nothing of the
// hourly
// limit while nothing changes.
package inbox
