// Package tracker reads and writes issues, comments with markers, and labels. It also reads the history of labels, and
// decides which authors' markers count. The packages above it define claims, questions and deliveries.
//
// A marker is the first line of a comment by a director. GitHub's pages do not show it. The package reads labels before
// it changes them, and changes only the four configured labels. The gate combines waiting changes into one GraphQL
// request where possible. REST calls then make the remaining changes.
package tracker
