package policy

import (
	"retake/internal/recovery"
)

// directorPolicy returns the preset "director" with a cap on re-dispatches and a backoff.
func directorPolicy(maxRetries int, b recovery.Backoff) *Policy {
	p, err := Preset("director")
	if err != nil {
		panic(err)
	}
	return p.With(Limits{MaxRetries: maxRetries, Backoff: b})
}
