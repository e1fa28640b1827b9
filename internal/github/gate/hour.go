//go:build !fasthour

package gate

import "time"

// hour is the period of GitHub's hourly limits. The build tag fasthour shortens it for `make bench ONLY=backlog`,
// together with all other periods of the gate and the pause between writes. That build must use a simulated GitHub.
const hour = time.Hour
