package containertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"retake/internal/container"
)

// printed collects FollowOutput's data by stream.
type printed struct {
	mu             sync.Mutex
	stdout, stderr strings.Builder
	times          []time.Time
}

func (p *printed) take(c container.Printed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times = append(p.times, c.At); c.Stderr {
		p.stderr.Write(c.Data)
		return
	}
	p.stdout.Write(c.Data)
}

func (p *printed) out() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.String()
}

// A reader that starts late gets the same output as an early reader, and both receive the last line.
func outputIsFollowedFromTheBeginning(s harness) {
	spec := s.spec("obey")
	s.ensure(spec)
	var early, late printed
	ended := make(chan error, 2)
	follow := func(p *printed) { go func() { ended <- s.FollowOutput(s.Context(), spec.AttemptID, p.take) }() }
	follow(&early)
	eventually(s, "the first line appears while it runs", func() bool { return early.out() == "ready\n" })
	follow(&late)
	eventually(s, "a later reader gets the line", func() bool { return late.out() == "ready\n" })
	gone, cancel := context.WithCancel(s.Context())
	cancel()
	if err := s.FollowOutput(gone, spec.AttemptID, new(printed).take); err == nil {
		s.Error("FollowOutput returned nil after its context ended")
	}
	seen := ""
	_, err := s.Stop(s.Context(), spec.AttemptID, patience, func(container.Exit) error {
		for range 2 { // both readers finish before the removal
			if err := <-ended; err != nil {
				s.Errorf("FollowOutput: %v", err)
			}
		}
		seen = early.out()
		return nil
	})
	if want := "ready\nbye\n"; err != nil || seen != want || late.out() != want {
		s.Errorf("Stop: %v, the first reader got %q, the later one %q, want %q", err, seen, late.out(), want)
	}
	for _, at := range early.times {
		if !at.IsZero() && time.Since(at).Abs() > 10*time.Minute {
			s.Errorf("printed at %v", at)
		}
	}
	if err := s.FollowOutput(s.Context(), spec.AttemptID,
		func(container.Printed) { s.Error("output of an absent attempt") }); err != nil {
		s.Errorf("an absent attempt: %v", err)
	}
}

// The runtime keeps at least the newest MiB of an attempt's output until Stop, in complete lines.
func outputOfAnEndedAttempt(s harness) {
	spec := s.spec("flood", fmt.Sprint(floodLines))
	s.ensure(spec)
	s.awaitState(spec.AttemptID, container.StateExited)
	var p printed
	if err := s.FollowOutput(s.Context(), spec.AttemptID, p.take); err != nil {
		s.Fatal(err)
	}
	out, stderr := p.out(), p.stderr.String()
	if before, after, ok := strings.Cut(out, "the one line on stderr\n"); ok && !s.Streams { // anywhere in it
		out, stderr = before+after, "the one line on stderr\n"
	}
	lines := strings.SplitAfter(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines {
		want := fmt.Sprintf("line %d of the flood, padded to make the output long", floodLines-len(lines)+i)
		if got := strings.TrimSuffix(line, "\n"); got != want && i > 0 { // the first one may be cut
			s.Fatalf("line %d: %q, want %q", i, got, want)
		}
	}
	if len(out) < 1<<20 || stderr != "the one line on stderr\n" {
		s.Errorf("%d bytes of stdout, stderr %q", len(out), stderr)
	}
}
