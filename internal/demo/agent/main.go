// Command agent is the coding agent of the demo. On one issue it is a real agent: a loop of model and tools (package
// loop) against a fake provider. On the other issues, a script replaces the model. Its input and output are real, and
// real programs check its work.
//
// It reads .retake/attempt.json, copies the acceptance test from the issue's text into the checkout, and runs the
// script for that issue (scripts.go), which usually writes one of the tries in tries.txtar. The exit code is 0 if the
// agent has finished the work or written a question, and 1 if it cannot continue.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"retake/internal/bus/wire"
)

//go:embed tries.txtar
var tries []byte

// reads is the time that the agent pretends to spend reading its input. During that time, people can see it at work,
// and the director sends a request to GitHub. Tests shorten it.
var reads = 1500 * time.Millisecond

// round is the agent's input for one fix round.
type round struct {
	attempt wire.AttemptFile
	fix     int    // number of the fix round in this attempt, from 1
	refusal string // why validation rejected the previous round; empty in the first
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo agent:", err)
		os.Exit(1)
	}
}

func run() error {
	data, err := os.ReadFile(filepath.Join(".retake", "attempt.json"))
	if err != nil {
		return err
	}
	r := round{fix: 1}
	if err := json.Unmarshal(data, &r.attempt); err != nil {
		return fmt.Errorf(".retake/attempt.json: %w", err)
	}
	if n, err := strconv.Atoi(os.Getenv("RETAKE_FIX_ROUND")); err == nil && n > 0 {
		r.fix = n
	}
	switch refusal, err := os.ReadFile(filepath.Join(".retake", "last_failure.txt")); {
	case err == nil:
		r.refusal = string(refusal)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	path, text, err := acceptanceTest(r.attempt.Issue.Body)
	if err != nil {
		return err
	}
	script, ok := scripts[path]
	if !ok {
		return fmt.Errorf("no script for the acceptance test %s", path)
	}
	time.Sleep(reads)
	fmt.Printf("issue %s: %s (attempt %d, round %d)\n", r.attempt.Issue.Key, r.attempt.Issue.Title, r.attempt.Attempt,
		r.fix)
	if first, _, _ := strings.Cut(r.refusal, "\n"); first != "" {
		fmt.Println("validation said:", first, "- trying something else")
	}
	if err := write(path, text); err != nil {
		return err
	}
	return script(r)
}

var goBlock = regexp.MustCompile("(?s)```go\r?\n// (\\S+_test\\.go)\r?\n(.*?)```")

// acceptanceTest finds the test in an issue's text. The path is untrusted, so it must be inside the checkout.
func acceptanceTest(body string) (path, text string, err error) {
	m := goBlock.FindStringSubmatch(body)
	if m == nil || !filepath.IsLocal(m[1]) {
		return "", "", errors.New("the issue has no acceptance test")
	}
	return m[1], strings.ReplaceAll(m[2], "\r", ""), nil
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fmt.Println("writing", path)
	return os.WriteFile(path, []byte(text), 0o644)
}

// put writes the files of one try of a script, stored in tries.txtar, into the checkout.
func put(r round, script string, try int) error {
	prefix := fmt.Sprintf("%s/%d/", script, try)
	for _, f := range txtar.Parse(tries).Files {
		path, ok := strings.CutPrefix(f.Name, prefix)
		if !ok {
			continue
		}
		if err := write(path, strings.ReplaceAll(string(f.Data), "ATTEMPT", r.attempt.AttemptID)); err != nil {
			return err
		}
	}
	return nil
}
