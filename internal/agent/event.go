package agent

import "time"

// Event is one message in an agent's stream.
type Event interface{ isEvent() }

// Progress is a step that the agent began, in a few words.
type Progress struct{ Step string }

// UsageReport is the agent's usage. A partial report adds to earlier reports, and a total replaces them.
type UsageReport struct {
	Usage
	Total bool
}

// Usage counts tokens and costs.
type Usage struct {
	Tokens    int64 // input and output tokens, including cached tokens
	CostUSD   float64
	PaidCalls int64 // number of calls that the stream marks as paid
	CacheHits int64 // answers from a cache instead of the model
}

// RateLimit reports that the provider refuses the agent for now, and that the agent keeps trying.
type RateLimit struct {
	Status     int           // 429, 503, 529, …, or 0 if not stated
	RetryAfter time.Duration // 0 if not stated
	Headers    map[string]string
}

// Failure is an error. After a retryable error, the agent tries again.
type Failure struct {
	Message    string
	Code       string   // the provider's or CLI's code for the error, which is more general than the message
	Names      []string // Code and all other codes, types, statuses and reasons, outermost first
	Details    string   // further lines about the error
	Status     int      // HTTP status, or 0 if not stated
	Retryable  bool
	RetryAfter time.Duration     // 0 if not stated
	Headers    map[string]string // HTTP headers about limits, with names in lower case
}

// Denial is a tool call that was not permitted.
type Denial struct{ What string }

// Result ends the agent's stream, unless the agent resumes.
type Result struct {
	OK   bool
	Text string // the agent's answer
}

// Resumed reports that the agent takes another turn after its Result.
type Resumed struct{}

func (Progress) isEvent()    {}
func (UsageReport) isEvent() {}
func (RateLimit) isEvent()   {}
func (Failure) isEvent()     {}
func (Denial) isEvent()      {}
func (Result) isEvent()      {}
func (Resumed) isEvent()     {}
