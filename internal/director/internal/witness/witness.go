// Package witness records the circumstances of failures that only the director observes: attempts without a report from
// their worker, and failures of the director itself. For all other failures, the worker records the circumstances.
package witness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"retake/internal/config"
	"retake/internal/recovery/circumstances"
	"retake/internal/recovery/policy"
)

// onWire has the fields of a circumstances.Record that the director sets.
type onWire struct {
	Stage       string               `json:"stage,omitempty"`
	Provider    string               `json:"provider,omitempty"`
	Refused     bool                 `json:"refused,omitempty"`
	Credentials []string             `json:"credentials,omitempty"`
	Runtime     string               `json:"runtime,omitempty"`
	Limit       *circumstances.Limit `json:"limit,omitempty"`
}

// Own returns the circumstances of a failure of the director itself. They include the GitHub credential, because only
// GitHub can have refused one of the director's credentials. GitHub is the provider only for github.com, because people
// create tokens for other servers elsewhere.
func Own(c config.Config) circumstances.Record {
	w := onWire{Refused: true, Runtime: c.Containers.Runtime}
	w.Credentials = []string{cmp.Or(c.GitHub.TokenEnv, "github.token_file")}
	if c.GitHub.TokenFile != "" {
		w.Credentials = []string{"github.token_file"}
	}
	if strings.Contains(c.GitHub.APIURL, "//api.github.com/") {
		w.Provider = "github"
	}
	return w.record()
}

// Exit returns the circumstances of an attempt without a report from its worker. outOfMemory means that the container
// exceeded its memory limit, and tooLong that the watchdog ended the attempt.
func Exit(c config.Config, outOfMemory, tooLong bool) circumstances.Record {
	w := onWire{Runtime: c.Containers.Runtime}
	switch {
	case outOfMemory:
		w.Limit = &circumstances.Limit{Setting: "containers.memory", Value: c.Containers.Memory}
	case tooLong:
		w.Limit = &circumstances.Limit{
			Setting: "timeouts.worker_watchdog_seconds", Value: policy.Span(c.Timeouts.WorkerWatchdog),
		}
	default:
		return w.record()
	}
	w.Limit.SetBy = circumstances.Configuration
	if slices.Contains(c.DefaultLimits(), w.Limit.Setting) {
		w.Limit.SetBy = circumstances.Default
	}
	return w.record()
}

// record converts w through JSON, because a Record has no other constructor.
func (w onWire) record() (out circumstances.Record) {
	data, err := json.Marshal(w)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("witness: record %+v: %v", w, err)) // encoding these fields cannot fail
	}
	return out
}
