package gate

import (
	"cmp"
	"strings"
	"time"
)

// Resources that a cooldown can close. Each of GitHub's other rate limits is a resource named "github." followed by
// GitHub's name for the limit.
const (
	Read    = "github.read"
	Write   = "github.write"
	API     = "github.api" // every request, while GitHub does not answer or refuses the account
	GraphQL = "github.graphql"
	// Claims is closed while already claimed issues need the rest of the hourly limit on new content.
	Claims = "github.claims"
)

// reserved is the suffix of a resource name that closes the resource for all requests except escalations. OnCooldown is
// not called for such a resource, because GitHub's next answer contains the limit again.
const reserved = ".reserve"

// CutReserved removes the reserved suffix from a resource name. isReserve means that escalations may still use the
// resource.
func CutReserved(resource string) (name string, isReserve bool) {
	return strings.CutSuffix(resource, reserved)
}

// Cooldown closes a resource until a deadline.
type Cooldown struct {
	Resource string
	Until    time.Time
	Why      string
}

// minute is the period of GitHub's limits on points.
const minute = hour / 60

// GitHub's documented secondary limits, per credential.
const (
	pointsPerMinute  = 900
	graphQLPerMinute = 2000
	pointsOfRead     = 1
	pointsOfWrite    = 5
)

const (
	// longestPacing is the longest wait that the content limits may cause. The gate refuses requests that would wait
	// longer.
	longestPacing = minute
	// backoffLimit is the longest wait after limits for which GitHub did not specify a wait.
	backoffLimit = 30 * minute
)

// Lane is the class of a request. The gate admits requests by age, adjusted by a head start or delay for each lane. It
// thus admits finished work before new claims, but never starves a lane.
type Lane int

// The lanes, most urgent first.
const (
	Escalation Lane = iota
	Completion
	Claim
	Reads
	Progress
	Lanes // number of lanes
)

// delays lists each lane's delay, which is added to the time when a request began to wait. The delay of claims is
// longer than 40 workers need to claim one issue each at the default pause between writes. With a shorter delay, claims
// that have waited for a long time would overtake finished work.
var delays = [Lanes]time.Duration{
	Escalation: -hour, Completion: 0, Claim: 15 * minute, Reads: 15 * minute, Progress: 20 * minute,
}

// Request is one request at the gate. It must not be reused.
type Request struct {
	Lane    Lane
	Write   bool
	GraphQL bool
	Changes int // number of visible objects that it creates or edits
	Content int // number of these changes that create content (see Creates)
	// Part, if not nil, allows the gate to combine this GraphQL change with other parts in one request. Enter then sets
	// Parts of the first request to all parts, which the caller must send. Parts stays nil for the other requests.
	Part  any
	Parts []any

	ticket  ticket
	due     time.Time  // the request with the earliest time is admitted first
	entered int        // breaks ties between requests of one operation
	since   time.Time  // time of the call to Enter
	at      int        // index in its line
	decided chan error // receives the gate's decision once
}

// ticket is the age of an operation that has one or more requests.
type ticket struct {
	at time.Time
	n  int
}

// compare orders requests by their turns.
func (r *Request) compare(o *Request) int {
	return cmp.Or(r.due.Compare(o.due), cmp.Compare(r.Lane, o.Lane), cmp.Compare(r.ticket.n, o.ticket.n),
		cmp.Compare(r.entered, o.entered))
}

// Resource returns Read or Write.
func (r *Request) Resource() string {
	if r.Write {
		return Write
	}
	return Read
}

// resources returns the resources that must all be open for the request.
func (r *Request) resources() []string {
	all := []string{API, r.Resource()}
	if r.Lane == Claim && r.Content > 0 {
		all = append(all, Claims)
	}
	if r.GraphQL {
		all = append(all, GraphQL)
	}
	if r.Lane != Escalation {
		for _, name := range all {
			all = append(all, name+reserved)
		}
	}
	return all
}

func (r *Request) cost() int {
	if r.Write {
		return pointsOfWrite
	}
	return pointsOfRead
}

// Limit is a rate limit that GitHub reported in an answer.
type Limit struct {
	Stated bool          // GitHub specified the duration; otherwise the gate backs off
	Wait   time.Duration // from now; only if specified
	Why    string
	// Resource is the limited resource, or empty for all of REST.
	Resource string
	Reserve  bool // escalations may use the rest of the budget
	// Secondary means one of GitHub's secondary limits. Answers do not show their usage.
	Secondary bool
}

// Result is the outcome of a request.
type Result struct {
	Limit   *Limit
	OK      bool   // GitHub accepted the request
	Failure string // why the answer is missing or GitHub refuses the account; otherwise empty
	Refused bool   // GitHub refuses the account; Failure gives the reason
	GivenUp bool   // the caller stopped waiting for the answer
	Unsent  bool   // the request was not sent
}
