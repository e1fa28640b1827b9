// Package inbox reads changes in repositories: issues, comments and dependencies. For a director that has lost its
// journal, it also finds the director's tasks on GitHub. It does not write. Polls are conditional requests, and
// unchanged answers do not count against the hourly limit.
package inbox
