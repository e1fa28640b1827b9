package agent

import "time"

// Event is one thing that an agent's stream says.
type Event interface{ isEvent() }

// Progress is a step that the agent began, in a few words.
type Progress struct{ Step string }

// Used is what the agent has consumed. A part adds to what was said before; a total replaces it.
type Used struct {
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

// RateLimited says that the provider holds the agent back, while the agent goes on trying.
type RateLimited struct {
	Status     int           // 429, 503, 529, …; 0: not stated
	RetryAfter time.Duration // 0: not stated
	Headers    map[string]string
}

// Failed is an error. A retryable one is followed by another try of the agent's own.
type Failed struct {
	Message    string
	Status     int // HTTP; 0: not stated
	Retryable  bool
	RetryAfter time.Duration // 0: not stated
	Headers    map[string]string
}

// Denied is a tool that the agent was not allowed to use.
type Denied struct{ What string }

// Final is the agent's last word.
type Final struct {
	OK   bool
	Text string // its answer
}

func (Progress) isEvent()    {}
func (Used) isEvent()        {}
func (RateLimited) isEvent() {}
func (Failed) isEvent()      {}
func (Denied) isEvent()      {}
func (Final) isEvent()       {}
