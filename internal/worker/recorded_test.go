package worker

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/bus/wire"
)

// reasonsOf lists, by kind of recording, the reasons that may be reported for it.
var reasonsOf = map[string][]string{
	"401":      {"auth_error"},
	"429":      {"rate_limited", "quota_exhausted"}, // gemini's message mentions a quota
	"529":      {"overloaded"},
	"overflow": {"context_overflow"},
	"hollow":   {"no_progress", "unknown", "needs_human", "policy_violation", "network_transient", "overloaded"},
	"turns":    {"needs_human"},
	// never a tool's output
	"cut":               {"docker_exit_nonzero", "agent_crash", "worker_lost", "network_transient"},
	"cut-while-limited": {"rate_limited"},
}

// TestReasonsOfRecordedStreams plays the recorded output of every profile to a complete worker. A success must
// have a result, and every failure must be reported with its reason.
func TestReasonsOfRecordedStreams(t *testing.T) {
	files, err := filepath.Glob("../agent/testdata/streams/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded streams: %v", err)
	}
	for _, file := range files {
		name, kind, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), ".")
		t.Run(name+" "+kind, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, rest, _ := strings.Cut(string(data), "-- stdout --\n")
			out, rest, _ := strings.Cut(rest, "-- stderr --\n")
			errs, _, _ := strings.Cut(rest, "-- events --\n")
			_, code, _ := strings.Cut(head, "-- exit ")
			code, _, _ = strings.Cut(code, " ")
			n, err := strconv.Atoi(code)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				p := agentPlan(t, name, nil)
				bus, r := newFakeBus(), &fakeRunner{script: []exit{{
					code: n, took: time.Minute,
					stdout: tail{kept: []byte(out)}, stderr: tail{kept: []byte(errs)},
				}, minute(0)}}
				r.onRun = func(c command) {
					if c.stdout != nil {
						_, _ = io.WriteString(c.stdout, out)
					}
					if c.stderr != nil {
						_, _ = io.WriteString(c.stderr, errs)
					}
				}
				w := testWorker(t, p, bus, r)
				w.classify = classifyFailure
				w.run(t.Context())
				e, failed := bus.only(t).(*wire.WorkerError)
				want, known := reasonsOf[kind]
				switch {
				case known && (!failed || !slices.Contains(want, e.ErrorType)):
					t.Errorf("want one of %q, got %+v", want, bus.only(t))
				case !known && n == 0 && failed:
					t.Errorf("got %+v", e)
				case !known && n != 0 && !failed:
					t.Errorf("exit code %d counts as a success", n)
				}
			})
		})
	}
}
