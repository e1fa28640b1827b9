// Package tracker reads and writes issues, comments with markers, and labels. It also reads their history, and decides
// which authors' markers count. The packages above it define claims, questions and deliveries.
//
// A marker is the first line of a comment by a director, invisible on the page. Labels are read before they are
// changed, and only the four labels of the configuration are ever changed. Changes that wait at the same time go
// into a GraphQL request where possible. REST calls then make the remaining changes.
package tracker
