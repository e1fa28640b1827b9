package wire

import (
	"encoding/json"
	"time"
)

// timeLayout is RFC 3339 with exactly three decimal places. Times are converted to UTC before they are written.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Time is a time on the wire. It is written as RFC 3339 in UTC with milliseconds, and parsed from any RFC 3339 time.
type Time struct{ time.Time }

// At converts t to a wire time. It truncates t to milliseconds, so that the time survives a round trip.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes the time with milliseconds in UTC.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"` + timeLayout + `"`)), nil
}

// List is a slice that is [] on the wire even if it is nil.
type List[T any] []T

// MarshalJSON writes nil as [].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// MessageType implements Payload.
func (Hello) MessageType() string { return "protocol_hello.v1" }

// MessageType implements Payload.
func (Heartbeat) MessageType() string { return "heartbeat.v1" }

// MessageType implements Payload.
func (TaskProgress) MessageType() string { return "task_progress.v1" }

// MessageType implements Payload.
func (WorkerError) MessageType() string { return "worker_error.v1" }

// MessageType implements Payload.
func (WorkerResult) MessageType() string { return "worker_result.v1" }

// MessageType implements Payload.
func (Welcome) MessageType() string { return "protocol_welcome.v1" }

// MessageType implements Payload.
func (Incompatibility) MessageType() string { return "protocol_incompatibility.v1" }

// MessageType implements Payload.
func (Probe) MessageType() string { return "probe.v1" }

// MessageType implements Payload.
func (Stop) MessageType() string { return "stop.v1" }

// MessageType implements Payload.
func (Pause) MessageType() string { return "pause.v1" }

// MessageType implements Payload.
func (Resume) MessageType() string { return "resume.v1" }

// MessageType implements Payload.
func (SyncRequired) MessageType() string { return "sync_required.v1" }

// MessageType implements Payload.
func (Snapshot) MessageType() string { return "project_state_snapshot.v1" }

// MessageType implements Payload.
func (BudgetAcquire) MessageType() string { return "budget_acquire.v1" }

// MessageType implements Payload.
func (BudgetGrant) MessageType() string { return "budget_grant.v1" }

// MessageType implements Payload.
func (BudgetRelease) MessageType() string { return "budget_release.v1" }

// MessageType implements Payload.
func (BudgetReport) MessageType() string { return "budget_report.v1" }
