// Package containertest is one suite of tests for everything that runs attempts. A runtime declares in its
// Capabilities what it promises; what it does not promise is skipped by name, never silently weakened. It
// imports package container alone.
//
// Real processes end in real time: the suite waits for conditions with deadlines, and sleeps never decide a test.
// A failure of the surroundings fails the test at once.
package containertest
