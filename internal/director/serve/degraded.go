package serve

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"retake/internal/github"
)

// Refused returns the problem if GitHub refuses the account as a whole, or "".
func Refused(g *github.Client) string {
	since, why := g.API.Gate.Refused()
	if since.IsZero() {
		return ""
	}
	return fmt.Sprintf("GitHub has refused every request from this account since %s: %s",
		since.UTC().Format(time.RFC3339), why)
}

// Degraded describes all unusable components, or returns "". config is a problem with the configuration.
func Degraded(unusable *sync.Map, config string, g *github.Client) string {
	var all []string
	unusable.Range(func(_, why any) bool {
		all = append(all, why.(string)) //nolint:forcetypeassert // the map has only strings
		return true
	})
	if config != "" {
		all = append(all, config)
	}
	slices.Sort(all)
	if since, why := g.API.Gate.Away(); !since.IsZero() {
		all = slices.Insert(all, 0, fmt.Sprintf("GitHub has not responded since %s (%s); the director keeps trying",
			since.UTC().Format(time.RFC3339), why))
	}
	if until, why := g.API.Gate.Closed(); !until.IsZero() {
		all = slices.Insert(all, 0, fmt.Sprintf("Retake does not send requests to GitHub until %s: %s",
			until.UTC().Format(time.RFC3339), why))
	}
	return strings.Join(all, "; ")
}
