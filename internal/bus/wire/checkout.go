package wire

// A checkout that travels is sent in chunks, see package checkpoint. A chunk is raw bytes: it is asked for by
// its name on checkout.get.<id>, and sent on checkout.put.<id>. What an answer cannot be it says in a header.

// Operations on a checkout that travels.
const (
	CheckoutOpGet  = "get"
	CheckoutOpPut  = "put"
	CheckoutOpSave = "save"
)

// RefusedHeader is why a chunk was not given or taken, one of the constants below; the answer's body is for
// people. Without it, it was.
const RefusedHeader = "Retake-Refused"

// Why something of a checkout is refused.
const (
	RefusedBusy      = "busy"      // not now: the same again may succeed
	RefusedNotThere  = "not_there" // the attempt's manifest does not name it
	RefusedClosed    = "closed"    // nothing is taken of this attempt (any more)
	RefusedTooMuch   = "too_much"  // the checkout is beyond a limit
	RefusedMalformed = "malformed" // no worker of ours sends that
)

// Checkout is the subject of one operation on the checkout of a worker; "*" matches all operations.
func (s Subjects) Checkout(operation, worker string) string {
	return s.Prefix + ".checkout." + operation + "." + worker
}

// CheckoutPublished are the subjects on which a worker asks for its checkout and sends what has changed in it.
func (s Subjects) CheckoutPublished(worker string) []string {
	return []string{
		s.Checkout(CheckoutOpGet, worker), s.Checkout(CheckoutOpPut, worker),
		s.Checkout(CheckoutOpSave, worker),
	}
}

// Checkpoint says that the chunks which a worker has sent are its checkout as it is now. It counts as a whole
// or not at all.
type Checkpoint struct {
	AttemptID string `json:"attempt_id"`
	Manifest  string `json:"manifest"`        // name of its root chunk
	Final     bool   `json:"final,omitempty"` // nothing runs any more: a report follows
	// which limit the checkout is beyond: nothing was sent, and the manifest is that of the last checkpoint;
	// empty: none
	TooMuch string `json:"too_much,omitempty"`
}

// CheckpointAnswer is what became of a Checkpoint.
type CheckpointAnswer struct {
	Saved   bool         `json:"saved"`
	Missing List[string] `json:"missing,omitempty"` // chunks to send first, or some of them
	Refused string       `json:"refused,omitempty"` // why it does not count; empty: it does, or something is missing
	Detail  string       `json:"detail,omitempty"`  // for people
}

// PlanCheckout is how a checkout travels that the worker does not find in its workdir.
type PlanCheckout struct {
	// name of its root chunk: the workdir is made to hold that
	Manifest          string  `json:"manifest"`
	CheckpointSeconds float64 `json:"checkpoint_seconds,omitempty"` // between two checkpoints; 0: none is sent
	// to which the worker holds itself; null: none
	Limits *CheckoutLimits `json:"limits,omitempty"`
}

// CheckoutLimits bound a checkout. They are those of the configuration.
type CheckoutLimits struct {
	Files     int   `json:"files"`
	Entries   int   `json:"entries"` // in one folder
	Depth     int   `json:"depth"`
	PathBytes int   `json:"path_bytes"`
	Bytes     int64 `json:"bytes"`
}

// MessageType of a Checkpoint.
func (Checkpoint) MessageType() string { return "checkpoint.v1" }

// MessageType of a CheckpointAnswer.
func (CheckpointAnswer) MessageType() string { return "checkpoint_answer.v1" }
