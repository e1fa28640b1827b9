package policy

import (
	"retake/internal/recovery"
)

// directorPolicy is the preset "director" under a cap on re-dispatches and a backoff.
func directorPolicy(maxRetries int, b recovery.Backoff) *Policy {
	p, err := Preset("director")
	if err != nil {
		panic(err)
	}
	return p.With(Limits{MaxRetries: maxRetries, Backoff: b})
}
