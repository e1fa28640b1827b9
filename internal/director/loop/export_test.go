package loop

// HeartbeatBatch is heartbeatBatch.
const HeartbeatBatch = heartbeatBatch

// TakeHeartbeats takes the pending heartbeats, and returns their number.
func (o *Owner) TakeHeartbeats() int { return len(o.heartbeats.take()) }
