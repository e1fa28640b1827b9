package lead

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"retake/internal/director/loop"
)

// The name never changes, except after damage: a full disk or a power cut may empty the file.
func TestInstallationIsNamedForEver(t *testing.T) {
	dir := t.TempDir()
	named := func() string {
		t.Helper()
		name, err := Installation(dir, zap.NewNop())
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

// Directors that start together on a shared directory agree on its name.
func TestInstallationHasOneName(t *testing.T) {
	const directors, folders = 8, 40
	for range folders {
		dir := t.TempDir()
		names := make(chan string, directors)
		begin := make(chan struct{})
		for range directors {
			go func() {
				<-begin
				name, err := Installation(dir, zap.NewNop())
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
				t.Fatalf("one directory has the names %s and %s", first, name)
			}
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	}
}
