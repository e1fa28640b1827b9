//go:build fasthour

package gate

import "time"

const hour = 6 * time.Minute
