package fsm

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Placement describes an accepted attempt's wait for the runtime to start it.
type Placement struct {
	Since time.Time `json:"since"`
	// Bound is when the wait for capacity must end. The current deadline is Task.Until, which may be earlier.
	Bound time.Time `json:"bound"`
	// For is the runtime's explanation, given at time At, or empty.
	For string    `json:"for,omitempty"`
	At  time.Time `json:"at,omitzero"`
	// Lacks is the failure reason if the wait lasts too long.
	Lacks recovery.Reason `json:"lacks,omitempty"`
}

// ContainerWaits records that the runtime has accepted the attempt, or explains its wait. ContainerStarted follows once
// the container is running.
type ContainerWaits struct {
	OfTask
	For   string          `json:"for,omitempty"`
	Lacks recovery.Reason `json:"lacks,omitempty"`
	Until time.Time       `json:"until"` // when the permitted wait ends
}

func (f ContainerWaits) apply(m *agenda, t *Task) {
	w := Placement{Since: m.now, Bound: f.Until}
	if t.Waits != nil {
		w.Since, w.Bound = t.Waits.Since, t.Waits.Bound
	}
	w.For, w.At, w.Lacks = f.For, m.now, f.Lacks
	t.Waits, t.Until = &w, f.Until
}

const (
	// imageTimeout limits an attempt's wait for an image that cannot be pulled. The runtime tries several times within
	// this time. The wait for capacity may be much longer.
	imageTimeout = 5 * time.Minute
	// waitsEvery is the minimum interval between recorded explanations.
	waitsEvery = time.Minute
	// maxWords limits a runtime's explanation, in bytes.
	maxWords = 300
)

// shortWords returns a runtime's explanation as one line of at most maxWords bytes.
func shortWords(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxWords)], "")
}

// placing records that the runtime is looking for capacity. The worker has no deadlines before its container runs, but
// PendingTimeout limits the wait.
func (m *attempts) placing(t *Task) {
	t.soft.upAt = m.now
	m.record(ContainerWaits{OfTask: OfTask{t.Key}, Until: m.now.Add(m.cfg.PendingTimeout)})
}

// stillWaits records the runtime's explanation for a waiting attempt. If the image cannot be pulled, it shortens the
// deadline, because waiting rarely helps.
func (m *attempts) stillWaits(t *Task, words string) {
	w := t.Waits
	if words = shortWords(words); words == "" || words == w.For || w.For != "" && m.now.Before(w.At.Add(waitsEvery)) {
		return
	}
	lacks := recovery.NoCapacity
	if m.cfg.Classify(recovery.Evidence{Stage: "START", Message: words}).Reason == recovery.ImagePullFailed {
		lacks = recovery.ImagePullFailed
	}
	until := w.Bound
	switch lacks {
	case w.Lacks:
		until = t.Until
	case recovery.ImagePullFailed:
		until = sooner(until, m.now.Add(imageTimeout))
	}
	m.record(ContainerWaits{OfTask: OfTask{t.Key}, For: words, Lacks: lacks, Until: until})
}

// notPlaced ends an attempt that has waited too long. The cluster is responsible, so attempts that wait for the same
// reason form one incident.
func (m *attempts) notPlaced(t *Task) {
	w := t.Waits
	cause := fmt.Sprintf("the cluster did not start the worker within %s (kubernetes.pending_timeout_seconds)",
		w.Bound.Sub(w.Since))
	if w.Lacks == recovery.ImagePullFailed {
		cause = "the cluster cannot pull the worker's image"
	}
	m.stop(t, OnNotPlaced, EndingSet{
		Outcome: OutcomeFailed, Known: cmp.Or(w.Lacks, recovery.NoCapacity), Resource: recovery.Cluster, Cause: cause +
			": " + cmp.Or(w.For, "no reason given"),
	}, 0)
}

// placementWaits describes the attempt's wait for the cluster.
func (t *Task) placementWaits() Waiting {
	w := Waiting{For: "the cluster, which has accepted the worker but not started it yet", Until: t.Until}
	if t.Waits.For != "" {
		w.For = "the cluster, which cannot start the worker yet: " + t.Waits.For
	}
	if t.Waits.Lacks == recovery.ImagePullFailed {
		w.Do = "Check that containers.image is correct, and that the cluster is allowed to pull it. The cluster " +
			"retries automatically."
	}
	return w
}
