package loop

// SignsTogether is signsTogether.
const SignsTogether = signsTogether

// TakeSigns takes the signs of life that wait, and returns how many there were.
func (o *Owner) TakeSigns() int { return len(o.signs.take()) }
