package worker

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"retake/internal/budget"
	"retake/internal/bus/wire"
)

// Environment variables that let a stage's programs request leases.
const (
	envSocket   = "RETAKE_BUDGET_SOCKET"
	envResource = "RETAKE_BUDGET_RESOURCE"
	envWorker   = "RETAKE_WORKER" // path of this program, for its budget command
)

// Exit codes of the budget command: success, lease refused, and error.
const (
	leaseDone   = 0
	leaseNo     = 1
	leaseCannot = 2
)

const leaseUsage = `worker budget asks the worker for leases on a model, from inside a stage.

  worker budget acquire [--resource NAME] [--wait SECONDS]   prints {"grant_id":…,"lease_seconds":…}, exit 0;
                                                             or {"wait_seconds":…,"why":…}, exit 1
  worker budget report --status ok|rate_limited|error [--retry-after SECONDS] GRANT
  worker budget release GRANT                                report first: a released grant cannot be reported

Exit 2 means an error, explained in one line on stderr. NAME is model.<provider>. The default is
$RETAKE_BUDGET_RESOURCE, or model.default if that is not set. A program can also write lines of JSON to
the socket $RETAKE_BUDGET_SOCKET, such as {"op":"acquire","resource":"model.default","patience_seconds":60}.
`

// BudgetCommand is a small client of the lease socket, for wrapper scripts that would rather run a program than
// use a socket. It returns the exit code.
func BudgetCommand(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	q, err := parseLease(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(stdout, leaseUsage)
		return leaseDone
	}
	var line []byte
	var a leaseAnswer
	if err == nil {
		line, a, err = askWorker(getenv(envSocket), q)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "worker budget: %v\n", err)
		return leaseCannot
	}
	if q.Op == wire.BudgetOpAcquire {
		_, _ = stdout.Write(line)
		if a.GrantID == "" {
			return leaseNo
		}
	}
	return leaseDone
}

func parseLease(args []string, getenv func(string) string) (leaseRequest, error) {
	if len(args) == 0 {
		return leaseRequest{}, errors.New("want acquire, report or release; see worker budget --help")
	}
	if args[0] == "-h" || args[0] == "--help" {
		return leaseRequest{}, flag.ErrHelp
	}
	q := leaseRequest{Op: args[0]}
	flags := flag.NewFlagSet("worker budget", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	retryAfter := -1.0
	switch q.Op {
	case wire.BudgetOpAcquire:
		flags.StringVar(&q.Resource, "resource", cmp.Or(getenv(envResource), budget.DefaultResource), "")
		flags.Float64Var(&q.PatienceSeconds, "wait", 0, "")
	case wire.BudgetOpReport:
		flags.StringVar(&q.Status, "status", "", "")
		flags.Float64Var(&retryAfter, "retry-after", retryAfter, "")
	case wire.BudgetOpRelease:
	default:
		return q, fmt.Errorf("want acquire, report or release, got %q; see worker budget --help", q.Op)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return q, err
	}
	if retryAfter >= 0 {
		q.RetryAfterSeconds = &retryAfter
	}
	want := 1
	if q.Op == wire.BudgetOpAcquire {
		want = 0
	}
	if flags.NArg() != want {
		return q, fmt.Errorf("%s: want %d arguments after the flags, got %q", q.Op, want, flags.Args())
	}
	q.GrantID = flags.Arg(0)
	return q, nil
}

// askWorker sends one request to the lease socket.
func askWorker(socket string, q leaseRequest) (line []byte, a leaseAnswer, err error) {
	if socket == "" {
		return nil, a, fmt.Errorf("%s is not set; run this command from a program inside a stage", envSocket)
	}
	c, err := net.DialTimeout("unix", socket, socketTimeout)
	if err != nil {
		return nil, a, fmt.Errorf("the worker is not listening at %s: %w", socket, err)
	}
	defer func() { _ = c.Close() }()
	// The worker may use up the patience, and then make one last request to the director.
	patience := duration(q.PatienceSeconds, 0) + directorWait + socketTimeout
	if err = c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, a, err
	}
	if err = json.NewEncoder(c).Encode(q); err != nil {
		return nil, a, err
	}
	if line, err = bufio.NewReader(c).ReadBytes('\n'); err != nil {
		return nil, a, fmt.Errorf("no response from %s: %w", socket, err)
	}
	if err = json.Unmarshal(line, &a); err != nil {
		return nil, a, fmt.Errorf("answer %.80q: %w", strings.TrimSpace(string(line)), err)
	}
	return line, a, nil
}
