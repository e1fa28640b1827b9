package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"retake/internal/bus/wire"
)

// The agent's second argument: do the work, or check it.
const (
	agentWork  = "work"
	agentCheck = "check"
)

// part describes the agent's task, and is embedded in the issue's text.
type part struct {
	Seconds float64 `json:"seconds"` // duration of the work
	// First is "fails" if the first attempt fails, "asks" if the agent asks a question until a person has answered, or
	// empty if the agent succeeds.
	First string `json:"first,omitempty"`
}

var partLine = regexp.MustCompile(`(?m)^chaos: (\{.*\})\r?$`)

func (p part) line() string {
	data, _ := json.Marshal(p) // marshalling numbers and strings never fails
	return "chaos: " + string(data)
}

// aliveEvery is the interval at which an agent records that it is alive.
const aliveEvery = 100 * time.Millisecond

// RunAgent implements `chaos agent DIRECTORY work|check`, which runs in a checkout. It returns the exit code.
func RunAgent(args []string) int {
	err := errors.New("usage: chaos agent DIRECTORY work|check (only workers run this)")
	if len(args) == 2 {
		err = runAgent(args[0], args[1])
	}
	if err != nil {
		fmt.Println("chaos agent:", err)
		return 1
	}
	return 0
}

func runAgent(dir, what string) error {
	r := runLine{
		Issue: os.Getenv("RETAKE_ISSUE"), Attempt: os.Getenv("RETAKE_ATTEMPT_ID"),
		Round: os.Getenv("RETAKE_FIX_ROUND"), PID: os.Getpid(),
	}
	if what == agentCheck {
		return r.write(dir, runFinished)
	}
	data, err := os.ReadFile(filepath.Join(".retake", "attempt.json"))
	if err != nil {
		return err
	}
	var file wire.AttemptFile
	if err := json.Unmarshal(data, &file); err != nil {
		return fmt.Errorf("attempt.json: %w", err)
	}
	m := partLine.FindStringSubmatch(file.Issue.Body)
	if m == nil {
		return errors.New("the issue's text does not contain this agent's task")
	}
	var p part
	if err := json.Unmarshal([]byte(m[1]), &p); err != nil {
		return fmt.Errorf("parse the task in the issue's text: %w", err)
	}
	unlock, alone, err := lockIssue(dir, r.Issue)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.write(dir, runBegan); err != nil {
		return err
	}
	if !alone {
		_ = r.write(dir, runOverlaps) // the previous write succeeded, so this one should as well
	}
	for end := time.Now().Add(time.Duration(p.Seconds * float64(time.Second))); time.Now().Before(end); {
		time.Sleep(aliveEvery)
		if err := r.write(dir, runAlive); err != nil {
			return err
		}
	}
	return r.act(p, file, dir)
}

// act does the agent's work.
func (r runLine) act(p part, file wire.AttemptFile, dir string) error {
	if len(file.Hints) == 0 && p.First == "asks" {
		text := "Which of the two is meant?\n"
		return errors.Join(os.WriteFile(filepath.Join(".retake", "question.md"), []byte(text), 0o644),
			r.write(dir, runAsked))
	}
	if file.Attempt == 1 && p.First == "fails" {
		_ = r.write(dir, runFailed)
		return errors.New("panic: runtime error: the first attempt always fails")
	}
	return errors.Join(os.MkdirAll("work", 0o755), os.WriteFile(filepath.Join("work", number(r.Issue)+".txt"),
		[]byte(r.Attempt+"\n"), 0o644))
}

// lockIssue locks the issue until unlock, or until the process ends. alone is false if another agent holds the lock.
func lockIssue(dir, issue string) (unlock func(), alone bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "issue-"+number(issue)+".lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, false, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return func() { _ = f.Close() }, true, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return func() { _ = f.Close() }, false, nil
	default:
		return nil, false, errors.Join(err, f.Close())
	}
}

// number returns the number in an issue's key.
func number(key string) string {
	_, n, _ := strings.Cut(key, "#")
	if _, err := strconv.Atoi(n); err != nil {
		return "none"
	}
	return n
}
