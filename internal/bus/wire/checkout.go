package wire

// A travelling checkout moves between director and worker in chunks of raw bytes; see package checkpoint. A worker
// requests a chunk by name on checkout.get.<id>, and sends one on checkout.put.<id>. If the director refuses, its
// answer has RefusedHeader.

// Operations on a travelling checkout.
const (
	CheckoutOpGet  = "get"
	CheckoutOpPut  = "put"
	CheckoutOpSave = "save"
)

// RefusedHeader holds the reason for a refusal, one of the constants below. The answer's body explains the reason to
// people. An answer without this header means success.
const RefusedHeader = "Retake-Refused"

// Reasons for refusing a request about a checkout.
const (
	RefusedBusy      = "busy"      // the director is busy, but the same request may succeed later
	RefusedNotThere  = "not_there" // this chunk is not in the attempt's manifest
	RefusedClosed    = "closed"    // the director does not accept chunks from this attempt
	RefusedTooMuch   = "too_much"  // the checkout exceeds a limit
	RefusedMalformed = "malformed" // the request is invalid, so the worker has a bug
)

// Checkout returns the subject of one operation on the checkout of a worker. "*" matches all operations.
func (s Subjects) Checkout(operation, worker string) string {
	return s.Prefix + ".checkout." + operation + "." + worker
}

// CheckoutPublished returns the subjects on which a worker requests its checkout and sends changes to it.
func (s Subjects) CheckoutPublished(worker string) []string {
	return []string{
		s.Checkout(CheckoutOpGet, worker), s.Checkout(CheckoutOpPut, worker),
		s.Checkout(CheckoutOpSave, worker),
	}
}

// Checkpoint asks the director to use the chunks that a worker has sent as the task's current checkout. The director
// accepts or refuses the checkpoint as a whole.
type Checkpoint struct {
	AttemptID string `json:"attempt_id"`
	Manifest  string `json:"manifest"`        // name of the checkout's root chunk
	Final     bool   `json:"final,omitempty"` // set if all programs have ended and a report follows
	// TooMuch is the limit that the checkout exceeds, or empty. If it is set, the worker has not sent the chunks, and
	// Manifest repeats the previous checkpoint.
	TooMuch string `json:"too_much,omitempty"`
}

// CheckpointAnswer is the director's answer to a Checkpoint.
type CheckpointAnswer struct {
	Saved   bool         `json:"saved"`
	Missing List[string] `json:"missing,omitempty"` // names of missing chunks; the list may be incomplete
	Refused string       `json:"refused,omitempty"` // reason for a refusal; empty if accepted or if chunks are missing
	Detail  string       `json:"detail,omitempty"`  // explanation for people
}

// PlanCheckout tells a worker how to fetch a checkout that is not in its workdir.
type PlanCheckout struct {
	// Manifest is the name of the checkout's root chunk. The worker makes its workdir match that checkout.
	Manifest          string  `json:"manifest"`
	CheckpointSeconds float64 `json:"checkpoint_seconds,omitempty"` // checkpoint interval; 0 disables checkpoints
	// Limits are the limits that the worker enforces itself, or null.
	Limits *CheckoutLimits `json:"limits,omitempty"`
}

// CheckoutLimits bound a checkout. They come from the configuration.
type CheckoutLimits struct {
	Files     int   `json:"files"`
	Entries   int   `json:"entries"` // maximum number in one directory
	Depth     int   `json:"depth"`
	PathBytes int   `json:"path_bytes"`
	Bytes     int64 `json:"bytes"`
}

// MessageType of a Checkpoint.
func (Checkpoint) MessageType() string { return "checkpoint.v1" }

// MessageType of a CheckpointAnswer.
func (CheckpointAnswer) MessageType() string { return "checkpoint_answer.v1" }
