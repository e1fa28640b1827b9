// Package testfiles holds the test data that several packages share, and reads it for their tests. Only tests import
// it.
//
//	testdata/vectors   what the founding documents expect, as input and expected value: one file for each document
//	testdata/corpus    labelled output of real programs; LABELS.md says how causes were labelled
//
// testdata/github GitHub's own OpenAPI description (octokit/openapi), cut to the endpoints we use, and examples of
// its webhooks
//
//	(octokit/webhooks); both under the MIT licence, which lies beside them
//
// RETAKE_TESTDATA names another folder with the same layout; tests then read that one instead. A part that it
// lacks is read from here. Such a folder may hold what these tests have never met. Each unknown thing (a kind
// of vectors, a field, a shape, a file) fails the test of this package once, by name, and everything else is
// read and handed out as usual: an unknown kind or shape is withheld, a vector or line with one more field is
// not.
package testfiles
