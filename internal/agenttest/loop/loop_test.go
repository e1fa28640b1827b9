package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/agent"
	"retake/internal/agenttest"
)

// run runs the agent on a case in a new directory, and returns its output and the outcome that a worker reads from it.
func run(t *testing.T, sim *agenttest.Server, name string) (dir string, out string, o agent.Outcome, err error) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(strings.Repeat("A long text to read.\n", 50)),
		0o644); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	err = Run(t.Context(), Options{
		BaseURL: sim.Base(agenttest.Find(name), t.Name()), Key: "k", Model: "standin", Prompt: "do it", Dir: dir,
		Out:     &printed,
		Backoff: 10 * time.Millisecond, Idle: time.Second,
	})
	reader, fault := agent.NewReader("retake")
	if fault != nil {
		t.Fatal(fault)
	}
	for _, e := range append(reader.Write(printed.Bytes()), reader.Close()...) {
		o.Add(e)
	}
	return dir, printed.String(), o, err
}

func start(t *testing.T) *agenttest.Server {
	t.Helper()
	sim, err := agenttest.Start(t.Context(), "127.0.0.1:0", agenttest.DefaultTask)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	return sim
}

func TestItGetsPastWhatPasses(t *testing.T) {
	sim := start(t)
	for i := range agenttest.Cases {
		c := &agenttest.Cases[i]
		if !c.Succeeds() || c.Name == "slow-first-byte" { // silent for longer than Idle in this test
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			dir, out, o, err := run(t, sim, c.Name)
			text, _ := os.ReadFile(filepath.Join(dir, agenttest.DefaultTask.Write))
			if err != nil || string(text) != agenttest.DefaultTask.Content || !o.OK || o.Failure != nil ||
				o.Usage().Tokens == 0 {
				t.Errorf("%v, wrote %q, outcome %+v\n%s", err, text, o, out)
			}
		})
	}
}

func TestItEndsWithTheProvidersWords(t *testing.T) {
	sim := start(t)
	for name, want := range map[string]string{
		"invalid-key":     "401 Unauthorized: authentication_error: invalid x-api-key",
		"rate-limit-hour": "giving up instead of waiting 1h0m0s: 429",
		"overloaded":      "529: overloaded_error: Overloaded", "context-overflow": "prompt is too long",
		"no-answer":  "timed out",
		"stream-cut": "unexpected EOF", "endless-tools": "turn limit", "refused": "connection refused",
		"portal":            "not an event stream",
		"stream-overloaded": "overloaded_error", "content-filter": "refus", "output-limit": "max_tokens",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, out, o, err := run(t, sim, name)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if f := o.FinalFailure(); o.OK || f == nil || !strings.Contains(f.Message, want) {
				t.Errorf("read as %+v\n%s", o, out)
			}
		})
	}
}

func TestLimitsAreTold(t *testing.T) {
	_, out, o, err := run(t, start(t), "three-failures")
	if err != nil || o.RateLimits < 2 {
		t.Errorf("%v, %d limits were reported, want the 429 and the 529\n%s", err, o.RateLimits, out)
	}
	if !strings.Contains(out, `"retry_after_seconds":1`) || !strings.Contains(out, "the context is full") {
		t.Errorf("the waits are not reported:\n%s", out)
	}
}

func TestToolsStayBelowTheFolder(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "checkout")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tools, err := openTools(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tools.close()
	for _, path := range []string{"../x", "/etc/x", filepath.Join(above, "x")} {
		in, _ := json.Marshal(input{Path: path, Content: "y"})
		if _, err := tools.call(t.Context(), "write_file", in); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	in, _ := json.Marshal(input{Path: filepath.Join(dir, "a", "b"), Content: "one two"})
	if _, err := tools.call(t.Context(), "write_file", in); err != nil {
		t.Error(err)
	}
	in, _ = json.Marshal(input{Path: "a/b", Old: "two", New: "three"})
	if _, err := tools.call(t.Context(), "edit_file", in); err != nil {
		t.Error(err)
	}
	in, _ = json.Marshal(input{Command: "cat a/b"})
	if text, err := tools.call(t.Context(), "run_command", in); err != nil || text != "one three" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestTriesEndAfterShortening checks that the number of tries stays bounded if the prompt is shortened at the last one.
func TestTriesEndAfterShortening(t *testing.T) {
	requests := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 4 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error","message":"prompt is too long"}}`)
			return
		}
		w.Header().Set("Retry-After", "0.001")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer provider.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	l := &loop{
		Options: Options{
			BaseURL: provider.URL, Out: io.Discard, Tries: 4, LongestWait: time.Second, Idle: time.Second,
			Backoff: time.Millisecond,
		},
		client: provider.Client(),
		messages: []message{
			{Role: "user", Content: []block{{Type: "tool_result", Content: "a long text"}}},
			{Role: "assistant"},
		},
	}
	if _, err := l.ask(ctx); err == nil || ctx.Err() != nil || requests != 5 {
		t.Errorf("%v after %d requests, want an error after 5", err, requests)
	}
}

// TestEditKeepsTheRest checks that an edit keeps the parts of a long file that the model was not shown.
func TestEditKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	rest := strings.Repeat("x", 2*maxResult)
	if err := os.WriteFile(filepath.Join(dir, "long"), []byte("one "+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	tools, err := openTools(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tools.close()
	in, _ := json.Marshal(input{Path: "long", Old: "one", New: "two"})
	_, err = tools.call(t.Context(), "edit_file", in)
	if text, _ := os.ReadFile(filepath.Join(dir, "long")); err != nil || string(text) != "two "+rest {
		t.Errorf("%v, %d bytes, want %d", err, len(text), len("two "+rest))
	}
}
