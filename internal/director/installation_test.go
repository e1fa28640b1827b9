package director

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/loop"
)

// TestInstallationIsNamedForEver: but a file that a full disk or a power cut has left empty is no name.
func TestInstallationIsNamedForEver(t *testing.T) {
	dir := t.TempDir()
	d := &daemon{config: config.Config{Director: config.Director{DataDir: dir}}, log: zap.NewNop()}
	named := func() string {
		t.Helper()
		name, err := d.installation()
		if err != nil || !loop.NonceForm.MatchString(name) {
			t.Fatalf("%q, %v", name, err)
		}
		return name
	}
	if first := named(); named() != first {
		t.Error("another name at the second start")
	}
	path := filepath.Join(dir, "installation")
	for _, content := range []string{"", "abc", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if first := named(); named() != first {
			t.Error("another name at the second start")
		}
	}
	if aside, _ := filepath.Glob(path + ".damaged-*"); len(aside) != 3 {
		t.Errorf("set aside: %q", aside)
	}
}

// TestInstallationHasOneName: whoever begins at the same moment in a folder that several share has the same one.
func TestInstallationHasOneName(t *testing.T) {
	const directors, folders = 8, 40
	for range folders {
		dir := t.TempDir()
		names := make(chan string, directors)
		begin := make(chan struct{})
		for range directors {
			go func() {
				<-begin
				name, err := (&daemon{log: zap.NewNop()}).installationOf(dir)
				if err != nil {
					t.Error(err)
				}
				names <- name
			}()
		}
		close(begin)
		first := <-names
		for range directors - 1 {
			if name := <-names; name != first {
				t.Fatalf("one folder has the names %s and %s", first, name)
			}
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	}
}
