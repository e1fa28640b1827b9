// Package containertest is the test suite of all runtimes. A runtime declares its promises in Capabilities. The suite
// skips tests of other promises and names them. It imports only package container.
//
// Real processes take real time. The suite waits for conditions with deadlines. A fixed sleep never decides a test. A
// failure of the surroundings fails the test at once.
package containertest
