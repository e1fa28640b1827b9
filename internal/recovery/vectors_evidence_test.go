package recovery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/retryafter"
	"retake/internal/recovery/signature"
)

// evidenceKinds lists the kinds about signatures, waits and other evidence.
var evidenceKinds = []vectorKind{
	{"000", "distill_headers", checkDistill},
	{"000", "rate_query", checkRateQuery},
	{"004", "signature_group", checkSignatureGroup},
	{"004", "signature_value", checkSignatureValue},
}

// evidenceLeftOut lists the deviations in kinds and vectors about evidence.
var evidenceLeftOut = []vectorOut{
	{"000", "provider_name", "", "there is no file per provider; names of resources are checked by the request budget"},
	{"000", "pre_spawn_decision", "", "there is no cache of answers and no check before a spawn: work asks the " +
		"request budget, which waits for the shared limit"},
	{"000", "distill_headers", "000-078", "its engine reads a negative Retry-After as a date; here it is ignored"},
	{"000", "distill_headers", "000-086", "a reset may also be a duration"},
	{"000", "distill_headers", "000-087", "a reset may also be a duration"},
	{"000", "ingest_sequence", "", "answers are not merged into one limit: the last answer that closes a " +
		"resource applies"},
	{"000", "ingest_over_expired", "", "answers are not merged into one limit: the last answer that closes a " +
		"resource applies"},
	{"004", "signature_group", "004-057", "a time with a blank between date and clock is a time"},
	{"004", "signature_group", "004-060", "UUIDs are normalised in both cases"},
	{"004", "signature_group", "004-063", "absolute paths are normalised, which the seed's text requires"},
}

// limitJSON is a limit in the seed's form.
type limitJSON struct {
	Remaining *int64     `json:"remaining"`
	ResetAt   *time.Time `json:"resetAt"`
}

func (j limitJSON) limit() retryafter.Limit {
	l := retryafter.Limit{Remaining: j.Remaining}
	if j.ResetAt != nil {
		l.ResetAt = *j.ResetAt
	}
	return l
}

func (j limitJSON) differs(l retryafter.Limit) string {
	show := func(l retryafter.Limit) string {
		remaining := "null"
		if l.Remaining != nil {
			remaining = fmt.Sprint(*l.Remaining)
		}
		return remaining + " until " + l.ResetAt.UTC().Format(time.RFC3339Nano)
	}
	if got, want := show(l), show(j.limit()); got != want {
		return got + ", want " + want
	}
	return ""
}

// recode converts a value of a vector to another type.
func recode(t *testing.T, from, to any) {
	t.Helper()
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func checkDistill(t *testing.T, _ *classify.Classifier, v vector) string {
	var in struct {
		Headers map[string]string
		Now     time.Time
	}
	var want limitJSON
	recode(t, v.Input, &in)
	recode(t, v.Expected, &want)
	l, _ := retryafter.ReadLimit(in.Headers, in.Now)
	return want.differs(l)
}

// vectorNow replaces the time at which the seed's program ran.
var vectorNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func checkRateQuery(t *testing.T, _ *classify.Classifier, v vector) string {
	var in struct {
		File limitJSON `json:"state_file"`
	}
	recode(t, v.Input, &in)
	l := in.File.limit()
	block, ok := v.Expected["block"].(float64)
	if !ok {
		return ""
	}
	if got := l.Wait(vectorNow); (got > 0) != (block > 0) {
		return fmt.Sprintf("blocks for %s, want %v", got, block)
	}
	return ""
}

func checkSignatureGroup(t *testing.T, _ *classify.Classifier, v vector) string {
	var in struct {
		Name   string
		Stderr []string
	}
	recode(t, v.Input, &in)
	same := true
	for _, s := range in.Stderr {
		same = same && signature.Of(recovery.Evidence{Stderr: s}, recovery.Unknown) == signature.Of(
			recovery.Evidence{Stderr: in.Stderr[0]}, recovery.Unknown)
	}
	if same != v.Expected["same_signature"] {
		return fmt.Sprintf("%s: %q are the same: %v", in.Name, in.Stderr, same)
	}
	return ""
}

func checkSignatureValue(t *testing.T, _ *classify.Classifier, v vector) string {
	var in struct {
		Text string `json:"normalised_text"`
	}
	recode(t, v.Input, &in)
	if got := signature.Hash(in.Text); got != v.Expected["signature"] || !strings.HasPrefix(got, "sig:") {
		return fmt.Sprintf("%s, want %v", got, v.Expected["signature"])
	}
	return ""
}
