package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"retake/internal/recovery/plaintext"
	"retake/internal/secrets/redact"
)

const mostOutput = 16 << 10 // maximum length of a failed command's output in bytes

// tail is a writer that keeps only the end of the text.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - mostOutput; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// Try runs a check once in a checkout, and records its failure in the check. It kills the check and its children at the
// time limit. It returns an error only if ctx is done.
func Try(ctx context.Context, dir string, c *Command, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out tail
	cmd := exec.CommandContext(limited, c.Run[0], c.Run[1:]...) //nolint:gosec // the user asked to run it
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.Env = append(os.Environ(), "CI=1") // test runners must not wait for changes of files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		c.Failed = fmt.Sprintf("it did not end within %s", limit)
	case errors.Is(err, exec.ErrNotFound):
		c.Failed = c.Run[0] + " is not installed here"
	case err != nil:
		c.Failed = err.Error()
	}
	if c.Failed != "" {
		c.Output = redact.Text(plaintext.Clean(string(out.kept)))
	}
	return nil
}
