// Package inbox reads changes in repositories: issues, comments and dependencies. It also finds the tasks of a director
// that has lost its journal. It does not change anything on GitHub. It polls with conditional requests, so unchanged
// answers do not count against the hourly limit.
package inbox
