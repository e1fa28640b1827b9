package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// Span is a period in the history of a task.
type Span struct {
	Context wire.TraceParent // identifies the span; Sampled is not set
	Parent  [8]byte          // zero means the task's span
	Name    string           // one of a closed list
	Start   time.Time
	End     time.Time // Start or later
	// Attributes describe the whole span, and Events describe points in time.
	Attributes []Attribute
	Events     []Event
	Failed     string // the error on one line; empty for a success
	// Worker is the attempt id, set only in the span of an attempt. Report is the sequence number of the attempt's
	// final report, or 0 if there was no report.
	Worker string
	Report uint64
}

// Attribute describes a span or an event. Value is a string, a bool, an int64, a float64 or a []string.
type Attribute struct {
	Key   string
	Value any
}

// Event is an event within a span.
type Event struct {
	At         time.Time
	Name       string
	Attributes []Attribute
}

// Of returns the span of a task: the root of its trace. Nonces are unique within a fleet.
func Of(fleet, nonce string) wire.TraceParent {
	var p wire.TraceParent
	sum := sha256.Sum256([]byte("retake trace\x00" + fleet + "\x00" + nonce))
	copy(p.Trace[:], sum[:])
	return p.Child("task")
}

// OfAttempt returns the span of an attempt, or false if the id is malformed.
func OfAttempt(fleet, attempt string) (p wire.TraceParent, ok bool) {
	nonce, _, ok := fsm.ParseAttemptID(attempt)
	if !ok {
		return wire.TraceParent{}, false
	}
	return Of(fleet, nonce).Child("attempt " + attempt), true
}

// ID returns a trace's id in hexadecimal, as in logs.
func ID(p wire.TraceParent) string { return hex.EncodeToString(p.Trace[:]) }

// Stages returns spans for the stages in an attempt's report. It clamps them to the attempt's span, regardless of the
// worker's clock. Stages without times follow one another, and the last one ends with the attempt.
func Stages(attempt Span, stages []wire.StageResult) []Span {
	end := attempt.End
	out := make([]Span, len(stages))
	runs := map[string]int{}
	for _, s := range stages {
		runs[s.Stage]++
	}
	for i := len(stages) - 1; i >= 0; i-- {
		s, took := stages[i], time.Duration(max(stages[i].DurationMS, 0))*time.Millisecond
		x := Span{
			Context: attempt.Context.ForStage(s.Stage, runs[s.Stage]), Parent: attempt.Context.Span, Name: "stage " +
				s.Stage,
			Attributes: []Attribute{
				{keyStage, s.Stage},
				{keyRun, int64(runs[s.Stage])},
				{keyExitCode, int64(s.ExitCode)},
			},
		}
		runs[s.Stage]--
		if len(s.Command) > 0 {
			x.Attributes = append(x.Attributes, Attribute{keyCommand, s.Command})
		}
		if s.ExitCode != 0 {
			x.Failed = "exit code " + itoa(s.ExitCode)
		}
		if s.StartedAt.IsZero() {
			x.Start, x.End = end.Add(-took), end
			x.Attributes = append(x.Attributes, Attribute{keyEstimated, true})
		} else {
			x.Start = s.StartedAt.Time
			x.End = x.Start.Add(took)
		}
		x.Start, x.End = within(x.Start, attempt), within(x.End, attempt)
		end = x.Start
		out[i] = x
	}
	return out
}

func within(t time.Time, s Span) time.Time {
	switch {
	case t.Before(s.Start):
		return s.Start
	case t.After(s.End):
		return s.End
	}
	return t
}

// add sets an attribute, replacing an earlier value. It ignores empty values and a nil span.
func (s *Span) add(key string, value any) {
	if s == nil || value == "" || value == false {
		return
	}
	for i := range s.Attributes {
		if s.Attributes[i].Key == key {
			s.Attributes[i].Value = value
			return
		}
	}
	s.Attributes = append(s.Attributes, Attribute{key, value})
}

func (s *Span) happened(at time.Time, name string, about ...Attribute) {
	if s == nil {
		return
	}
	about = slices.DeleteFunc(about, func(a Attribute) bool { return a.Value == "" })
	s.Events = append(s.Events, Event{at, name, about})
}
