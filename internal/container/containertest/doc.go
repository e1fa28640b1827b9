// Package containertest is the test suite of all runtimes. A runtime declares its promises in Capabilities. Tests of
// other promises are skipped by name. It imports only package container.
//
// Real processes end in real time: the suite waits for conditions with deadlines, and sleeps never decide a test.
// A failure of the surroundings fails the test at once.
package containertest
