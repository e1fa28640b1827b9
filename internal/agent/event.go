package agent

import "time"

// Event is one thing that an agent's stream says.
type Event interface{ isEvent() }

// Progress is a step that the agent began, in a few words.
type Progress struct{ Step string }

// UsageReport is what the agent has consumed. A part adds to what was said before; a total replaces it.
type UsageReport struct {
	Usage
	Total bool
}

// Usage counts.
type Usage struct {
	Tokens    int64 // read and written, cached ones included
	CostUSD   float64
	PaidCalls int64 // that the stream itself calls paid
	CacheHits int64 // work that a cache did in the place of the model
}

// RateLimit says that the provider holds the agent back, while the agent goes on trying.
type RateLimit struct {
	Status     int           // 429, 503, 529, …; 0: not stated
	RetryAfter time.Duration // 0: not stated
	Headers    map[string]string
}

// Failure is an error. A retryable one is followed by another try of the agent's own.
type Failure struct {
	Message    string
	Code       string   // the provider's or the CLI's name for it: general where the message is not
	Names      []string // that name and every other: codes, types, statuses and reasons, nearest first
	Details    string   // lines that say more than the message
	Status     int      // HTTP; 0: not stated
	Retryable  bool
	RetryAfter time.Duration     // 0: not stated
	Headers    map[string]string // those about limits; names in lower case
}

// Denial is a tool that the agent was not allowed to use.
type Denial struct{ What string }

// Result is the agent's last word.
type Result struct {
	OK   bool
	Text string // its answer
}

func (Progress) isEvent()    {}
func (UsageReport) isEvent() {}
func (RateLimit) isEvent()   {}
func (Failure) isEvent()     {}
func (Denial) isEvent()      {}
func (Result) isEvent()      {}
