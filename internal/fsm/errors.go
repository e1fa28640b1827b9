package fsm

import "errors"

// ErrStopped: the driver was stopped, because the journal and the machine may differ. Reload.
var ErrStopped = errors.New("fsm: driver stopped")
