package worker

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"retake/internal/bus/wire"
	"retake/internal/secrets/redact"
)

func TestTailText(t *testing.T) {
	euro := []byte("€")
	for _, row := range []struct {
		tail  tail
		limit int
		want  string
	}{
		{tail{[]byte("all of it"), 0}, 100, "all of it"},
		{tail{[]byte("rest"), 10}, 100, "…[10 bytes cut]…rest"},
		{tail{append(euro[1:2:2], "x"...), 10}, 100, "…[11 bytes cut]…x"}, // begins within a character
		{tail{[]byte{'a', 0xff, 'b'}, 0}, 100, "a\uFFFDb"},
	} {
		if got := row.tail.text(row.limit); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
	got := tail{bytes.Repeat(euro, 100), 1 << 40}.text(100)
	if len(got) > 100 || !utf8.ValidString(got) || !strings.HasSuffix(got, "€€") || !strings.HasPrefix(got, "…[") {
		t.Errorf("got %q", got)
	}
}

func TestOldest(t *testing.T) {
	if got := firstBytes("short", 10); got != "short" {
		t.Errorf("got %q", got)
	}
	got := firstBytes(strings.Repeat("é", 50), 21)
	if len(got) > 21 || !utf8.ValidString(got) || !strings.HasSuffix(got, "[…]") {
		t.Errorf("got %q", got)
	}
}

func TestLogLinesStandOnTheirOwn(t *testing.T) {
	var out bytes.Buffer
	c := &console{to: &out}
	log := logLines{c, redact.New("hunter2-hunter2")}
	_, _ = c.Write([]byte("half a line"))
	_, _ = log.Write([]byte("{\"msg\":\"hunter2-hunter2\"}\n"))
	_, _ = c.Write([]byte("whole\n"))
	_, _ = log.Write([]byte("{}\n"))
	want := "half a line\nretake-worker: {\"msg\":\"[REDACTED]\"}\nwhole\nretake-worker: {}\n"
	if got := out.String(); got != want {
		t.Errorf("got %q", got)
	}
}

func TestChildEnvironment(t *testing.T) {
	got := childEnvironment([]string{
		"ANTHROPIC_API_KEY=sk-the-agent-needs-it", "RETAKE_BUS_PASSWORD=x", "NATS=nats://u:bus-password@h",
		"HOME=/home/x", "broken", "=odd",
	}, "bus-password").list()
	want := []string{"ANTHROPIC_API_KEY=sk-the-agent-needs-it", "HOME=/home/x", "PATH=" + defaultPath}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestWritableHome(t *testing.T) {
	dir := t.TempDir()
	if got, err := writableHome(dir, "/nowhere"); err != nil || got != dir {
		t.Errorf("got %s, %v", got, err)
	}
	got, err := writableHome("/no/such/home", "/nowhere", dir)
	if err != nil || filepath.Dir(got) != dir {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := writableHome("", "/nowhere"); err == nil {
		t.Error("no error without any writable place")
	}
}

func TestFolderStaysInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, folderName)); err != nil {
		t.Fatal(err)
	}
	f, err := openStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.write(failureText, 0o644, []byte("x")); err == nil {
		t.Error("wrote through a symbolic link out of the workspace")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("outside: %v", entries)
	}
}

func TestFolderReplacesAtomically(t *testing.T) {
	dir := t.TempDir()
	f, err := openStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for _, text := range []string{"one", "two"} {
		if err := f.write(spoolFolder+"/a.json", 0o600, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := f.read(spoolFolder+"/a.json", 100); err != nil || string(got) != text {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, spoolFolder, "a.json"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got, err := os.ReadDir(filepath.Join(dir, spoolFolder)); err != nil || len(got) != 1 {
		t.Errorf("in the folder: %v, %v", got, err)
	}
	if got, err := f.read("nothing", 1); got != nil || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := f.read(folderName, 1); err == nil {
		t.Error("a directory was read")
	}
}

func TestPlanIsCheckedAndRemoved(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := write(
		`{"worker_id":"k3v9qx2m-1","issue":{"key":"acme/widgets#21"},"attempt":1,"bus":{"url":"nats://h"},"workdir":"/w","stages":[{"name":"CODE","run":["x"]}]}`)
	load := func(file string) (*wire.Plan, error, error) { return loadPlan(t.Context(), Options{PlanFile: file}) }
	p, removeErr, err := load(file)
	if err != nil || removeErr != nil {
		t.Fatal(err, removeErr)
	}
	if p.AttemptID != "k3v9qx2m-1" || p.Issue.Number != 21 || p.FixAttempts != 1 ||
		p.Bus.MaxMessageBytes != defaultMessage {
		t.Errorf("defaults: %+v", p)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the plan is still there")
	}
	for text, says := range map[string][]string{
		`{`:   {"unexpected end"},
		`{}`:  {"worker_id", "issue", "attempt", "bus.url", "workdir", "stages"},
		`[1]`: {"array"},
		`{"worker_id":"a.b","attempt_id":"c","stages":[{"name":"","run":[],"timeout_seconds":-1}]}`: {
			"a.b",
			"stages[0].name", "stages[0].run", "stages[0].timeout_seconds",
		},
	} {
		_, _, err := load(write(text))
		if !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v, want it to name %s", text, err, s)
			}
		}
	}
	if _, _, err := load("/no/such/plan"); !errors.Is(err, ErrPlan) {
		t.Errorf("got %v", err)
	}
}

// A plan from a pipe is complete or refused, because its writer may be killed at any byte.
func TestPlanThatEndsEarlyIsNone(t *testing.T) {
	whole := `{"worker_id":"k3v9qx2m-1","issue":{"key":"acme/widgets#21"},"attempt":1,"bus":{"url":"nats://h"},"workdir":"/w",` +
		`"stages":[{"name":"CODE","run":["x"]}],"sign_key":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) +
		`"}`
	for n := range len(whole) {
		plan, _, err := loadPlan(t.Context(), Options{PlanFile: FromStdin, Stdin: strings.NewReader(whole[:n])})
		if plan != nil || !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), "standard input") {
			t.Fatalf("%d of %d bytes: %+v, %v", n, len(whole), plan, err)
		}
	}
	plan, _, err := loadPlan(t.Context(), Options{PlanFile: FromStdin, Stdin: strings.NewReader(whole)})
	if err != nil || len(plan.SignKey) != 32 {
		t.Errorf("%+v, %v", plan, err)
	}
	_, _, err = loadPlan(t.Context(),
		Options{PlanFile: FromStdin, Stdin: strings.NewReader(strings.Repeat(" ", planMax) + whole)})
	if !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), "4194304") {
		t.Errorf("too long: %v", err)
	}
}

func TestNobodyWaitsForEverForAPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, write := io.Pipe()
		began := time.Now()
		_, err := readInput(t.Context(), never, planPatience)
		if err == nil || !strings.Contains(err.Error(), "within 30s") || time.Since(began) != planPatience {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		var out buffer
		if code := Run(ctx, Options{
			PlanFile: FromStdin, Stdin: never, Stdout: &out,
			Stderr: &out,
		}); code != ExitTerminated {
			t.Errorf("stopped during the read: exit %d, %s", code, &out)
		}
		_ = write.Close()
	})
}

func TestExitCodesAreDistinct(t *testing.T) {
	seen := map[ExitCode]bool{2: true} // reserved by the Go runtime
	for _, row := range Exits() {
		if seen[row.Code] || row.Means == "" || row.Sent == "" {
			t.Errorf("row %+v", row)
		}
		seen[row.Code] = true
	}
}
