package chain

import (
	"errors"
	"fmt"
)

// ErrDamaged means that batches of the journal are missing or changed. The *Damage in the error identifies the first
// affected batch.
var ErrDamaged = errors.New("journal: damaged")

// Kind is the type of damage to a journal.
type Kind string

// The types of damage.
const (
	Cut    Kind = "cut"    // the journal ends before a batch that is known to have been stored
	Gap    Kind = "gap"    // a batch in the middle is missing
	Fork   Kind = "fork"   // a batch differs from the one recorded in a snapshot or by the Mirror
	Broken Kind = "broken" // a batch is unreadable, or its digest does not match the earlier batches
)

// Damage describes the first missing or changed batch of a journal.
type Damage struct {
	Kind  Kind   `json:"kind"`
	Where string `json:"where,omitempty"` // name of the file, or empty for the live journal
	Seq   uint64 `json:"seq"`             // the first missing or changed batch; all earlier ones are intact
	Want  string `json:"want"`            // the expected value and its source
	Got   string `json:"got"`
}

func (d *Damage) Error() string {
	where := "the journal"
	if d.Where != "" {
		where = d.Where
	}
	return fmt.Sprintf("%s is damaged (%s) at batch %d: want %s, got %s", where, d.Kind, d.Seq, d.Want, d.Got)
}

// Is lets errors.Is(err, ErrDamaged) match every *Damage.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// Located adds the name of the damaged file to a *Damage.
func Located(err error, where string) error {
	if d, ok := errors.AsType[*Damage](err); ok && d.Where == "" {
		at := *d
		at.Where = where
		return &at
	}
	return err
}
