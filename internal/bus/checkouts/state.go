package checkouts

import (
	"encoding/json"
	"errors"
	"time"

	"retake/internal/checkpoint"
)

// ErrClosed means that an attempt wrote to a checkout after its end, or without permission to write.
var ErrClosed = errors.New("checkouts: the attempt may no longer write")

// State is the state of a task's checkout.
type State struct {
	Version  int               `json:"version"`
	N        int               `json:"n"`                 // number of checkpoints so far, by all attempts
	Manifest checkpoint.Digest `json:"manifest"`          // current checkout
	Before   checkpoint.Digest `json:"before"`            // previous checkout, or zero
	Attempt  string            `json:"attempt,omitempty"` // sender of the checkpoint, or empty if the director made it
	At       time.Time         `json:"at"`                // time of the last checkpoint or Store.Open, in UTC
	Open     *Opened           `json:"open,omitempty"`    // the attempt that uses the checkout, or nil
	Refused  *Refusal          `json:"refused,omitempty"` // why the last checkpoint was refused, or nil
	// Record is data that the director needs to restore the checkout on another machine.
	Record json.RawMessage `json:"record,omitempty"`
}

// Opened is an attempt that may read a manifest. If it may also write, its checkpoints become the checkout.
type Opened struct {
	Worker string            `json:"worker"`
	Start  checkpoint.Digest `json:"start"` // the manifest the attempt starts from
	Writes bool              `json:"writes"`
}

// Refusal describes a checkpoint that the director refused.
type Refusal struct {
	Worker string    `json:"worker"`
	Why    string    `json:"why"`  // one of the constants in package wire
	Text   string    `json:"text"` // an explanation
	At     time.Time `json:"at"`   // UTC
}

const stateVersion = 1

// ErrOlder means that another director has stored a newer record for the checkout.
var ErrOlder = errors.New("checkouts: another director has replaced the checkout record")

var errUnchanged = errors.New("checkouts: nothing to change")
