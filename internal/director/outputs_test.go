package director

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/patience"
)

// printed returns the lines of an issue's output, from a director or its files, as "attempt stage text".
func (s *harness) printed(key string, f output.Filter) (lines []string) {
	s.t.Helper()
	all := operator.AskOutput(s.t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), f)
	if s.cancel == nil {
		all = operator.StoredLines(s.t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), f)
	}
	for l, err := range all {
		// the director is still starting
		if errors.Is(err, operator.ErrNoOutput) || errors.Is(err, operator.ErrNotThere) ||
			errors.Is(err, operator.ErrNotNow) {
			return nil
		}
		must(s.t, err)
		lines = append(lines, shownLine(l))
	}
	return lines
}

func shownLine(l output.Line) string {
	b, _ := json.Marshal(l.Attempt)
	return strings.TrimSpace(string(b) + " " + l.Stage + " " + l.Text)
}

// printedPassword is a value that the output must not show.
const printedPassword = "pa55-w0rd-of-the-database"

// printsTwice plays two attempts. The first prints secrets and fails after goOn, the second succeeds.
func (s *harness) printsTwice(ctx context.Context, a *fakeWorker, goOn <-chan struct{}) int {
	if a.plan.Attempt == 1 {
		s.runtime.mark(a, 1, "CODE")
		s.runtime.print(a, wire.StreamStdout, "seed="+a.plan.Bus.Seed[:20])
		s.runtime.print(a, wire.StreamStdout, a.plan.Bus.Seed[20:]+"\n"+printedPassword+"\n")
		select {
		case <-goOn:
		case <-ctx.Done():
			return 1
		}
		s.runtime.mark(a, 2, "VALIDATE")
		s.runtime.print(a, wire.StreamStderr, "it fails")
		return 1
	}
	s.runtime.mark(a, 1, "CODE")
	s.runtime.print(a, wire.StreamStdout, "again\n")
	return a.work(ctx)
}

// follow follows a task's output until its second attempt. ready receives a value after the first line.
func (s *harness) follow(key string) (followed chan []string, ready chan struct{}) {
	followed, ready = make(chan []string, 1), make(chan struct{}, 1)
	go func() {
		var lines []string
		for l, err := range operator.AskOutput(context.Background(), s.config.Director.DataDir, fsm.IssueKey(key),
			output.Filter{Follow: true, Last: 1}) {
			if err != nil {
				lines = append(lines, err.Error())
				break
			}
			lines = append(lines, shownLine(l))
			select {
			case ready <- struct{}{}:
			default:
			}
			if l.Attempt == 2 {
				break
			}
		}
		followed <- lines
	}()
	return followed, ready
}

// checkDigest compares the first attempt's output with its digest in the audit.
func (s *harness) checkDigest(key string) {
	s.t.Helper()
	var meta audit.Meta
	s.until("the digest in the audit", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.config.Director.DataDir, "audits", "*-1", "meta.json"))
		if len(found) != 1 {
			return false
		}
		data, err := os.ReadFile(found[0])
		must(s.t, err)
		must(s.t, json.Unmarshal(data, &meta))
		return meta.Output != nil
	})
	store := output.Open(s.config.Director.DataDir, output.Options{})
	defer store.Close()
	if stored, err := store.Stored(key, meta.AttemptID); err != nil || audit.StoredOutput(stored) != *meta.Output ||
		stored.Truncated {
		s.t.Errorf("audit has %+v, the file is %+v (%v)", meta.Output, stored, err)
	}
}

// TestOutputIsFollowedOverRestartsAndAttempts checks that people can follow a running worker's output across restarts
// of the director. The audit has the digest of the stored output, without the worker's secret.
func TestOutputIsFollowedOverRestartsAndAttempts(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	var s *harness
	s = newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		return s.printsTwice(ctx, a, goOn)
	})
	s.config.Containers.Env = map[string]string{"DB_PASSWORD": printedPassword}
	key := s.github.CreateIssue(repo, "octocat", "Print", "", "agent-task")
	if lines := s.printed(key, output.Filter{}); lines != nil {
		t.Errorf("before anything ran: %q", lines)
	}
	s.start()
	first := []string{"1 CODE seed=[REDACTED]", "1 CODE [REDACTED]"}
	s.until("the first lines", func() bool { return slices.Equal(s.printed(key, output.Filter{}), first) })
	s.stop()
	if lines := s.printed(key, output.Filter{}); !slices.Equal(lines, first) {
		t.Errorf("without a director: %q", lines)
	}
	s.start()
	s.until("adopted", func() bool { return s.logs.FilterMessage("adopted a running container").Len() == 1 })
	s.until("the same lines again",
		func() bool { return slices.Equal(s.printed(key, output.Filter{Stage: "code"}), first) })

	followed, ready := s.follow(key)
	<-ready
	close(goOn)
	s.until("review", s.labelled(key, "agent-review"))
	select {
	case lines := <-followed:
		if want := []string{"1 CODE [REDACTED]", "1 VALIDATE it fails", "2 CODE again"}; !slices.Equal(lines, want) {
			t.Errorf("followed %q, want %q", lines, want)
		}
	case <-time.After(patience.For(time.Minute)):
		t.Fatal("the second attempt was never seen")
	}
	if lines := s.printed(key, output.Filter{Attempt: 1, Stage: "VALIDATE"}); !slices.Equal(lines,
		[]string{"1 VALIDATE it fails"}) {
		t.Errorf("the finished one: %q", lines)
	}
	s.checkDigest(key)
	if len(s.verdicts(key)) != 1 {
		t.Errorf("verdicts %q", s.verdicts(key))
	}
	if ask := func(f output.Filter) (err error) {
		for _, e := range operator.AskOutput(t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), f) {
			err = e
		}
		return err
	}; !errors.Is(ask(output.Filter{Attempt: 7}), operator.ErrNoOutput) || ask(output.Filter{Attempt: 2}) != nil {
		t.Error("an attempt that never existed is found, or an existing attempt is not")
	}
}
