//go:build !fasthour

package gate

import "time"

// hour is the period of GitHub's hourly limits. The build tag fasthour shortens it for `make bench ONLY=backlog`, with
// all other periods of the gate and the pause between writes. That build runs only against a stand-in.
const hour = time.Hour
