package fsmtest

import "os"

// nightly: RETAKE_NIGHTLY=1 asks for the long searches.
var nightly = os.Getenv("RETAKE_NIGHTLY") == "1"

// effort is the amount of work by day and by night.
func effort[T any](day, night T) T {
	if nightly {
		return night
	}
	return day
}
