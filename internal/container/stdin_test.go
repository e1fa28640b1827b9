package container

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// openAttached opens a stand-in for an engine that creates and starts a container. The stand-in calls attached with
// the connection to the container's input, and closes it at the end of the test.
func openAttached(t *testing.T, attached func(net.Conn)) (*Docker, *observer.ObservedLogs) {
	t.Helper()
	d := openFake(t, answers{
		"GET /networks": say(http.StatusOK,
			`[{"Name":"n","Id":"n1","Driver":"bridge","IPAM":{"Config":[{"Gateway":"10.0.0.1"}]}}]`),
		"POST /containers/create": say(http.StatusCreated, `{"Id":"c1"}`),
		"PUT /containers/c1/archive": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		},
		"POST /containers/c1/attach": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { conn.Close() })
			_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
			attached(conn)
		},
		"POST /containers/c1/start": say(http.StatusNoContent, ""),
		"GET /containers/c1/logs":   say(http.StatusOK, ""),
	})
	seen, logs := observer.New(zapcore.WarnLevel)
	d.log = zap.New(seen)
	return d, logs
}

func specWithInput(t *testing.T, input []byte) Spec {
	t.Helper()
	program := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Spec{
		AttemptID: "at-1", Image: "img:1", Workdir: "/workspace", Checkout: t.TempDir(),
		Entrypoint: []string{WorkerPath}, Stdin: input,
		WorkerBinary: program, Files: []File{{Name: "more"}}, Memory: minMemory, CPUs: 1, Pids: 1, User: "1000",
	}
}

// A busy engine may keep the connection to a container's input open until the container ends. Ensure must not wait for
// that.
func TestEngineThatNeverEndsTheInput(t *testing.T) {
	got := make(chan string, 1)
	d, logs := openAttached(t, func(conn net.Conn) {
		all, err := io.ReadAll(conn)
		if err != nil {
			t.Error(err)
		}
		got <- string(all)
	})
	d.limits.operation = 10 * time.Second
	d.limits.input = d.limits.operation // longer than the test may wait
	began := time.Now()
	if err := d.Ensure(t.Context(), specWithInput(t, []byte("the plan"))); err != nil {
		t.Errorf("Ensure: %v", err)
	}
	if took := time.Since(began); took > d.limits.operation/2 {
		t.Errorf("took %v, although the worker already had its input", took)
	}
	if input := <-got; input != "the plan" {
		t.Errorf("the engine read %q", input)
	}
	if logs.Len() > 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// Ensure returns without an error and logs a warning if the container does not read a long input.
func TestInputThatNobodyTakes(t *testing.T) {
	d, logs := openAttached(t, func(net.Conn) {})
	d.limits.operation = 2 * time.Second
	if err := d.Ensure(t.Context(), specWithInput(t, make([]byte, 4<<20))); err != nil {
		t.Errorf("Ensure: %v", err)
	}
	if logs.FilterMessageSnippet("only part of its input").Len() != 1 {
		t.Errorf("logged %v, want one warning about the input", logs.All())
	}
}

// An engine that drops its connection has not forwarded the input.
func TestInputThatIsDropped(t *testing.T) {
	d, logs := openAttached(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 1))
		conn.Close() // a reset, because of unread bytes
	})
	d.limits.input = time.Minute
	if err := d.Ensure(t.Context(), specWithInput(t, []byte("the plan"))); err != nil {
		t.Errorf("Ensure: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); logs.Len() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if logs.FilterMessageSnippet("only part of its input").Len() != 1 {
		t.Errorf("logged %v, want one warning about the input", logs.All())
	}
}
