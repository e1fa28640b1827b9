// Package tracker reads and writes issues: their comments with markers, their labels, and the history of both. It
// decides
// whose markers count. What a claim, a question or a delivery means is up to the packages above.
//
// A marker is the first line of a comment by a director, invisible on the page. Labels are read before they are
// changed,
// and only the four labels of the configuration are ever touched. Several changes go into one GraphQL mutation where
// possible. REST calls then do whatever the mutation left undone.
package tracker
