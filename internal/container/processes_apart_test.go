package container_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"retake/internal/container"
)

// TestProcessSeesOnlyWhatIsItsOwn: a worker does not see the director's files, even world-readable ones, or other
// attempts and their processes.
func TestProcessSeesOnlyWhatIsItsOwn(t *testing.T) {
	if err := container.CanKeepApart(); err != nil {
		t.Skip(err)
	}
	data := checkout(t)
	secret, others := filepath.Join(data, "operator.json"), filepath.Join(data, "tasks", "other", "checkout")
	mine := filepath.Join(data, "tasks", "mine", "checkout")
	token := filepath.Join(checkout(t), "token")
	for _, dir := range []string{others, mine} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{secret, token, filepath.Join(others, "work.txt")} {
		if err := os.WriteFile(file, []byte("of-others\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p, err := container.OpenProcesses(context.Background(), container.Options{
		Fleet: engine.fleet, Dir: processDir(),
		Hide: []string{data, token, "/no/such/folder"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t)
	s.Checkout = mine
	script := `echo started; id -u; cat ` + token + `; ls -A ` + data + ` ` + others + `; cat ` + secret + ` ` +
		others + `/work.txt
for p in /proc/[0-9]*; do echo "process $(cat $p/comm)"; done
kill -0 ` + strconv.Itoa(os.Getpid()) + `; ls /proc/` + strconv.Itoa(os.Getpid()) + `; ls -A ` + processDir() + `
echo mine >mine.txt && ls -A . && touch $HOME/x $TMPDIR/x && echo home`
	s.Entrypoint = []string{"/bin/sh", "-c", script}
	exit := end(t, p, beginSpec(t, p, s))
	said := string(exit.Stdout)
	if exit.ExitCode != 0 || !strings.HasPrefix(said, "started\n1000\n") ||
		!strings.HasSuffix(said, "mine.txt\nhome\n") {
		t.Errorf("exit %d, output %s\n%s", exit.ExitCode, said, exit.Stderr)
	}
	for line := range strings.Lines(said) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "process "); ok && name != "sh" && name != "cat" {
			t.Errorf("it sees %s", name)
		}
	}
	if strings.Contains(said, "of-others") {
		t.Errorf("it can read files of others: %s", said)
	}
	if got, err := os.ReadFile(filepath.Join(mine, "mine.txt")); string(got) != "mine\n" {
		t.Errorf("its checkout lacks its work: %q, %v", got, err)
	}
	if left, err := os.ReadFile(secret); string(left) != "of-others\n" {
		t.Errorf("outside of the worker the file contains %q, %v", left, err)
	}
}
