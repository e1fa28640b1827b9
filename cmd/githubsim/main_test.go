package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("GITHUBSIM_TEST_RUN") != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestItServesWhatItPrintsAndEnds(t *testing.T) {
	s, err := parse([]string{
		"--listen", "127.0.0.1:0", "--data", t.TempDir(), "--repo", "acme/widgets=.", "--repo",
		"acme/empty",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, s, w) }()
	at := map[string]string{}
	lines := bufio.NewScanner(r)
	for len(at) < 5 && lines.Scan() {
		name, address, _ := strings.Cut(lines.Text(), " ")
		at[name] = strings.TrimSpace(address)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	for _, address := range []string{at["pages"], at["repo"], at["clone"] + "/info/refs?service=git-upload-pack"} {
		resp, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", address, resp.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = w.Close()
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"--nope"}, {"extra"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q: accepted", args)
		}
	}
	for _, s := range []settings{{listen: "127.0.0.1:0", repos: []string{"nope"}}, {listen: "nonsense"}} {
		if err := run(t.Context(), s, io.Discard); err == nil {
			t.Errorf("%+v: ran", s)
		}
	}
}

// TestAKilledSimulatorLosesNothing kills a real process during writes, restarts it, and checks that it still has all
// answered changes.
func TestAKilledSimulatorLosesNothing(t *testing.T) {
	data := t.TempDir()
	answered := 0
	for range 3 {
		cmd, pages := start(t, data)
		for n := range 12 {
			if n == 10 {
				time.AfterFunc(0, func() { _ = cmd.Process.Kill() }) // kill it during one of the next two requests
			}
			resp, err := http.PostForm(pages+"acme/widgets/issues", url.Values{"title": {"kept"}})
			if err != nil {
				break
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK { // status of the page, after the redirect
				t.Fatalf("status %d", resp.StatusCode)
			}
			answered++
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
	cmd, pages := start(t, data)
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); http.DefaultClient.CloseIdleConnections() }()
	resp, err := http.Get(pages + "acme/widgets/issues/" + strconv.Itoa(answered))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if answered < 30 || resp.StatusCode != http.StatusOK {
		t.Errorf("issue %d: status %d", answered, resp.StatusCode)
	}
}

// start runs this test's program as githubsim, and returns the address of its pages.
func start(t *testing.T, data string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--listen", "127.0.0.1:0", "--data", data, "--repo", "acme/widgets")
	cmd.Env = append(os.Environ(), "GITHUBSIM_TEST_RUN=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, strings.TrimSpace(strings.TrimPrefix(line, "pages"))
}

// TestAStateThatCannotBeWrittenEndsIt checks that run returns an error if the server cannot write its state.
func TestAStateThatCannotBeWrittenEndsIt(t *testing.T) {
	s, err := parse([]string{"--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "d")}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.data, "state.json.new", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), s, io.Discard); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("run = %v", err)
	}
}
