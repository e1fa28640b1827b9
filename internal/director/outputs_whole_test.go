package director

import (
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/output"
)

// printer is a program that prints as CODE until a file appears. Its output includes its input.
const printer = `package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	if os.Getenv("RETAKE_STAGE") != "CODE" {
		fmt.Println("checked")
		return
	}
	fmt.Println("begun", base64.URLEncoding.EncodeToString([]byte("it is "+os.Getenv("DB_PASSWORD"))))
	fmt.Print("retake-stage: x {\"n\":7,\"stage\":\"VALIDATE\",\"run\":1}\n", strings.Repeat("long ", 20000), "line\n")
	for {
		if _, err := os.Stat("go"); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	os.WriteFile("work.txt", []byte("done"), 0o644)
	fmt.Print("ended")
}
`

// texts returns the output on stdout.
func (s *harness) texts(key string, f output.Filter) (text string) {
	for l, err := range operator.AskOutput(s.t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), f) {
		if err == nil && l.Stream == wire.StreamStdout {
			text += l.Text
		}
	}
	return text
}

// printer makes a director run a printer in a runtime, and returns the program's path.
func (s *harness) printer(runtime string) (program string) {
	s.t.Helper()
	c := &s.config
	base := filepath.Dir(c.Director.DataDir)
	placeWorker(s.t, filepath.Join(base, "worker"))
	program = "/printer"
	if c.Containers.Runtime = runtime; runtime == "docker" {
		name := "retake-printer-" + strings.ToLower(rand.Text()[:8])
		c.Director.Fleet, c.Containers.Image, c.Containers.Network, c.Containers.Memory = name,
			imageOf(s.t, "printer", printer), name, "256MiB"
		s.t.Cleanup(func() {
			s.stop()
			dockerLine(s.t, "network", "rm", name)
		})
	} else {
		// plain processes of another user pass through
		for dir := c.Director.DataDir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
			must(s.t, os.MkdirAll(dir, 0o755))
			must(s.t, os.Chmod(dir, 0o755))
		}
		program = filepath.Join(base, "printer")
		must(s.t, os.WriteFile(filepath.Join(base, "printer.go"), []byte(printer), 0o600))
		must(s.t, buildStatic(filepath.Join(base, "printer.go"), program))
		s.t.Cleanup(func() {
			if s.stop(); s.t.Failed() {
				killWorkers(s.t, filepath.Join(base, "worker"), c.Director.DataDir)
			}
		})
	}
	return program
}

// TestOutputOfTheRealWorker checks that the real worker marks the stages in its output, in a container and as a
// process. A later director has every line.
func TestOutputOfTheRealWorker(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"process", "docker"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			testOutputIn(t, runtime)
		})
	}
}

func testOutputIn(t *testing.T, runtime string) {
	s := newHarness(t, nil)
	c := &s.config
	program := s.printer(runtime)
	c.Containers.Env = map[string]string{"DB_PASSWORD": printedPassword}
	c.Stages = []config.Stage{
		{Name: "CODE", Run: []string{program}, Timeout: 5 * time.Minute},
		{Name: "VALIDATE", Run: []string{program}, Timeout: time.Minute},
	}
	key := s.github.CreateIssue(repo, "octocat", "Print", "", "agent-task")
	s.start()
	code := output.Filter{Stage: "CODE"}
	first := func() string {
		lines := s.texts(key, code)
		if begin := strings.Index(lines, "begun"); begin >= 0 {
			return lines[begin:]
		}
		return ""
	}
	s.until("the first lines", func() bool { return strings.HasSuffix(first(), "long line") })
	before := first()
	s.stop()
	s.start()
	s.until("all of them again", func() bool { return first() == before })
	var checkout string
	must(t, filepath.WalkDir(filepath.Join(c.Director.DataDir, "tasks"),
		func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Name() == "README.md" {
				checkout = filepath.Dir(path)
			}
			return nil
		}))
	must(t, os.WriteFile(filepath.Join(checkout, "go"), nil, 0o644))
	s.until("review", s.labelled(key, "agent-review"))
	all := s.printed(key, output.Filter{})
	for _, want := range []string{
		"1 CODE ended", "1 VALIDATE checked",
		"1 CODE retake-stage: x {\"n\":7,\"stage\":\"VALIDATE\",\"run\":1}",
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no line %q in\n%.3000s", want, strings.Join(all, "\n"))
		}
	}
	text, encoded := strings.Join(all, ""), base64.URLEncoding.EncodeToString([]byte("it is "+printedPassword))
	if strings.Contains(text, encoded[8:len(encoded)-4]) || strings.Count(before, "long") != 20000 {
		t.Errorf("the password is shown, or the long line is missing: %.300s", text)
	}
}
