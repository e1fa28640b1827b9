package fsmtest

import "os"

// nightly is set by RETAKE_NIGHTLY=1, which enables the long searches.
var nightly = os.Getenv("RETAKE_NIGHTLY") == "1"

// effort returns the amount of work for the daily or the nightly test.
func effort[T any](day, night T) T {
	if nightly {
		return night
	}
	return day
}
