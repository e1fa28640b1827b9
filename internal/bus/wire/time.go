package wire

import "time"

// timeLayout is RFC 3339 with exactly three decimals; every time is converted to UTC before it is written.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Time is a moment on the wire: written as RFC 3339, UTC, milliseconds; read as any RFC 3339.
type Time struct{ time.Time }

// At makes a wire time, cut to the millisecond that survives a round trip.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes the time with milliseconds in UTC.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"` + timeLayout + `"`)), nil
}
