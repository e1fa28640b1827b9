package wire

// A checkout that travels is sent in chunks; see package checkpoint. A chunk is raw bytes. Workers request it by name
// on checkout.get.<id>, and send it on checkout.put.<id>. An answer that refuses a request has a header with the
// reason.

// Operations on a checkout that travels.
const (
	CheckoutOpGet  = "get"
	CheckoutOpPut  = "put"
	CheckoutOpSave = "save"
)

// RefusedHeader holds the reason why a chunk was refused, one of the constants below. The answer's body explains it to
// people. An answer without this header is a success.
const RefusedHeader = "Retake-Refused"

// Reasons for refusing a request about a checkout.
const (
	RefusedBusy      = "busy"      // not now; the same request may succeed later
	RefusedNotThere  = "not_there" // the attempt's manifest does not name it
	RefusedClosed    = "closed"    // chunks of this attempt are not (or no longer) accepted
	RefusedTooMuch   = "too_much"  // the checkout is beyond a limit
	RefusedMalformed = "malformed" // a correct worker never sends that
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

// Checkpoint declares that the chunks that a worker has sent make up its current checkout. It is accepted completely or
// refused.
type Checkpoint struct {
	AttemptID string `json:"attempt_id"`
	Manifest  string `json:"manifest"`        // name of its root chunk
	Final     bool   `json:"final,omitempty"` // all programs have ended, and a report follows
	// TooMuch is the limit that the checkout exceeds, or empty. If it is set, chunks were not sent, and the manifest
	// repeats the last checkpoint.
	TooMuch string `json:"too_much,omitempty"`
}

// CheckpointAnswer is the director's answer to a Checkpoint.
type CheckpointAnswer struct {
	Saved   bool         `json:"saved"`
	Missing List[string] `json:"missing,omitempty"` // chunks to send first, or some of them
	Refused string       `json:"refused,omitempty"` // reason, or empty if it was accepted or chunks are missing
	Detail  string       `json:"detail,omitempty"`  // for people
}

// PlanCheckout describes the transfer of a checkout that is not in the worker's workdir.
type PlanCheckout struct {
	// Manifest is the name of the checkout's root chunk. The worker makes the workdir equal to that checkout.
	Manifest          string  `json:"manifest"`
	CheckpointSeconds float64 `json:"checkpoint_seconds,omitempty"` // between two checkpoints; 0 disables them
	// Limits are the limits that the worker enforces itself, or null.
	Limits *CheckoutLimits `json:"limits,omitempty"`
}

// CheckoutLimits bound a checkout. They come from the configuration.
type CheckoutLimits struct {
	Files     int   `json:"files"`
	Entries   int   `json:"entries"` // in one directory
	Depth     int   `json:"depth"`
	PathBytes int   `json:"path_bytes"`
	Bytes     int64 `json:"bytes"`
}

// MessageType of a Checkpoint.
func (Checkpoint) MessageType() string { return "checkpoint.v1" }

// MessageType of a CheckpointAnswer.
func (CheckpointAnswer) MessageType() string { return "checkpoint_answer.v1" }
