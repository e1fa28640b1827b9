package keys

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The script for compose writes an existing directory of keys to .env, unless .env names one already.
func TestScriptNamesTheFolder(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "bus-keys.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, sub := range []string{"deploy", "bus-keys/director", "my keys/director"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, "deploy", "bus-keys.sh")
	if err := os.WriteFile(run, script, 0o700); err != nil {
		t.Fatal(err)
	}
	usual, other := "RETAKE_BUS_KEYS="+filepath.Join(dir, "bus-keys")+"\n", filepath.Join(dir, "my keys")
	for _, c := range []struct{ name, env, exported, want string }{
		{name: "a file without a last newline", env: "A=1", want: "A=1\n" + usual},
		{name: "a file with one", env: "A=1\n", want: "A=1\n" + usual},
		{name: "no file", want: usual},
		{name: "named", env: "RETAKE_BUS_KEYS=" + other + "\n", want: "RETAKE_BUS_KEYS=" + other + "\n"},
		{name: "named in double quotes", env: "RETAKE_BUS_KEYS=\"" + other + "\"\n", want: "RETAKE_BUS_KEYS=\"" +
			other + "\"\n"},
		{name: "named in single quotes", env: "RETAKE_BUS_KEYS='" + other + "'\n", want: "RETAKE_BUS_KEYS='" + other +
			"'\n"},
		{name: "exported", env: "A=1\n", exported: other, want: "A=1\n"},
	} {
		file := filepath.Join(dir, ".env")
		if err := os.WriteFile(file, []byte(c.env), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), run)
		cmd.Env = append(os.Environ(), "RETAKE_BUS_KEYS="+c.exported)
		out, err := cmd.CombinedOutput()
		got, _ := os.ReadFile(file)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, want %q; %v: %s", c.name, got, c.want, err, out)
		}
	}
}
