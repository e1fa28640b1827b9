package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNobodySeesTheDirectorsSecrets starts a real director with secrets in variables. Other processes cannot read them,
// but the director still can, even when it reloads the configuration.
func TestNobodySeesTheDirectorsSecrets(t *testing.T) {
	d, _, w := newTwins(t, true, untilTold+
		`; [ \"$MODEL_LOGIN\" = of-the-model ] && [ -z \"$GITHUB_TOKEN$RETAKE_PAGE_TOKEN\" ]`)
	key := w.issue("Add a frobnicator")
	d.env = []string{
		"RETAKE_PAGE_TOKEN=of-the-page-0123456789", "RETAKE_WEBHOOK_SECRET=of-the-webhooks", "MODEL_LOGIN=of-the-model",
		"PLAIN=of-nobody",
		"RETAKE_CFG_CONTAINERS_ENV_PASSTHROUGH=MODEL_LOGIN", "RETAKE_CFG_DIRECTOR_HTTP_LISTEN=127.0.0.1:0",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=of-the-collector",
	}
	d.start()
	wait(t, "it leads", d.leads)
	wait(t, "a worker runs", func() bool { return begun(filepath.Join(w.dir, "shared")) == 1 })
	proc := fmt.Sprintf("/proc/%d/", d.cmd.Process.Pid)
	environ, err := os.ReadFile(proc + "environ")
	if err != nil || len(bytes.Trim(environ, "\x00")) > 0 {
		t.Errorf("%senviron shows %q, %v", proc, environ, err)
	}
	var stat syscall.Stat_t // the file belongs to root, because the process is not dumpable
	if err := syscall.Stat(proc+"environ", &stat); err != nil || stat.Uid != 0 {
		t.Errorf("%senviron is user %d's, %v", proc, stat.Uid, err)
	}
	limits, err := os.ReadFile(proc + "limits")
	if err != nil || !strings.Contains(string(limits), "Max core file size        0                    0 ") {
		t.Errorf("%s, %v", limits, err)
	}
	check(t, d.cmd.Process.Signal(syscall.SIGHUP))
	wait(t, "the configuration is read again", func() bool {
		s, ok := d.ask()
		return ok && s.Config != nil && s.Config.By == "SIGHUP"
	})
	if s, _ := d.ask(); len(s.Config.Problems)+len(s.Config.Restart) > 0 {
		t.Errorf("it was %+v", s.Config)
	}
	w.goOn()
	w.handedIn(key, 1) // GitHub accepted the token, and the agent got its variables
}
