// Package testfiles holds the test data that several packages share, and reads it for their tests. Only tests import
// it.
//
//	testdata/vectors   expectations from the founding documents, one file for each document
//	testdata/corpus    labelled output of real programs, with the method in LABELS.md
//	testdata/github    GitHub's OpenAPI description (octokit/openapi), reduced to the endpoints that we use, and
//	                   examples of its webhooks (octokit/webhooks), both with their MIT licence
//
// RETAKE_TESTDATA selects another directory with the same layout. If a part is missing there, the package reads the
// project's part. Such a directory may contain unknown kinds of vectors, fields, shapes or files. This package's test
// fails once for each unknown part and names it. Vectors of an unknown kind or shape are withheld from tests. All
// others are returned, even if a vector or line has an additional field.
package testfiles
