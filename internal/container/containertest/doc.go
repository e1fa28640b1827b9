// Package containertest is the test suite for all runtimes. A runtime declares its promises in Capabilities, and the
// suite skips the tests for all other promises.
//
// Real processes take real time, so the suite waits for conditions with deadlines and never relies on a fixed sleep. A
// failure of the engine or the machine fails the test at once.
package containertest
