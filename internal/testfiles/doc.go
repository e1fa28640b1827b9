// Package testfiles holds the test data that several packages share, and reads it for their tests. Only tests import
// it.
//
//	testdata/vectors   expectations of the founding documents, one file for each document
//	testdata/corpus    labelled output of real programs, with the method in LABELS.md
//	testdata/github    GitHub's OpenAPI description (octokit/openapi), cut to the endpoints that we use, and
//	                   examples of its webhooks (octokit/webhooks), both with their MIT licence
//
// RETAKE_TESTDATA names another directory with the same layout, which replaces this one. If it lacks a part, the
// package reads its own. Such a directory may contain unknown kinds of vectors, fields, shapes or files. The test of
// this package fails once for each unknown part and names it. The package withholds vectors of an unknown kind or
// shape, and returns all others, even a vector or line with an additional field.
package testfiles
