package loop

// SignsTogether is signsTogether.
const SignsTogether = signsTogether

// TakeSigns takes the pending heartbeats, and returns their number.
func (o *Owner) TakeSigns() int { return len(o.signs.take()) }
