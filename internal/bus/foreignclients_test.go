package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// foreignClients contains the programs of docs/specs/foreign-clients.md.
const foreignClients = "../../docs/examples/foreign_clients/"

// TestForeignClients runs the clients for other languages. Each sends a report for a worker without an
// attempt, and learns that the report is stored but has no effect.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("python3", "-c", "import cryptography").CombinedOutput(); err != nil {
		t.Skipf("no python3 with cryptography: Debian's package python3-cryptography has it: %v\n%s", err, out)
	}
	dir := t.TempDir()
	python, program := foreignClients+"client.py", filepath.Join(dir, "client")
	if out, err := exec.Command("go", "build", "-o", program, foreignClients+"main.go").CombinedOutput(); err != nil {
		t.Fatalf("the client in Go: %v\n%s", err, out)
	}
	everywhere(t, func(t *testing.T, p *place) {
		background(t, func(ctx context.Context) error {
			return p.Reports().Consume(ctx, inTurn(func(r Report) {
				if err := p.Reports().Unheard(ctx, r.Worker, r.Seq); err != nil {
					t.Error(err)
				}
				r.Ack()
			}))
		})
		data, err := json.Marshal(p.person(t))
		mustDo(t, err)
		creds := filepath.Join(t.TempDir(), "operator.json")
		mustDo(t, os.WriteFile(creds, data, 0o600))
		foreignAnswers(t, exec.Command("python3", python, creds, "gone-1"), "gone-1")
		foreignAnswers(t, exec.Command(program, creds, "gone-2"), "gone-2")
	})
}

// foreignAnswers waits until the client has both answers, or ends.
func foreignAnswers(t *testing.T, c *exec.Cmd, about string) {
	t.Helper()
	c.Stdin = strings.NewReader(`{"error_id":"e","worker_id":"` + about + `","issue_number":7,"stage":"CODE",
		"attempt":1,"error_type":"tests_failed","is_transient":false,"should_retry":true,"escalate_to_human":false,
		"message":"m","exit_code":1,"last_stdout_tail":"","last_stderr_tail":""}`)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &stdout, &stderr, time.Minute
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", c.Args[0], err, stderr.String())
	}
	stored, refused := strings.Index(stdout.String(), `"seq"`), strings.Index(stdout.String(), `"code":404`)
	if stored < 0 || refused < 0 || !strings.Contains(stdout.String(), about+" has no running attempt") {
		t.Errorf("%s printed %q, want that the report is stored and has no effect", c.Args[0], stdout.String())
	}
}
