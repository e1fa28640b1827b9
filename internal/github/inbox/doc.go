// Package inbox reads changes in repositories: issues, comments and dependencies. It also finds on GitHub the tasks of
// a director without a journal. It does not write. Polls are conditional requests, and unchanged answers do not count
// against the hourly limit.
package inbox
