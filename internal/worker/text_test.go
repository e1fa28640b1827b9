package worker

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRingKeepsTheNewest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		r, all := newRing(64), []byte(nil)
		for range rng.IntN(20) {
			piece := make([]byte, rng.IntN(100))
			for i := range piece {
				piece[i] = byte(rng.Uint32())
			}
			_, _ = r.Write(piece)
			all = append(all, piece...)
		}
		kept, dropped := r.tail()
		want := all[max(0, len(all)-64):]
		if !bytes.Equal(kept, want) || dropped != int64(len(all)-len(want)) {
			t.Fatalf("of %d bytes kept %d, dropped %d", len(all), len(kept), dropped)
		}
	}
}

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
	if got := oldest("short", 10); got != "short" {
		t.Errorf("got %q", got)
	}
	got := oldest(strings.Repeat("é", 50), 21)
	if len(got) > 21 || !utf8.ValidString(got) || !strings.HasSuffix(got, "[…]") {
		t.Errorf("got %q", got)
	}
}

func TestMask(t *testing.T) {
	m := newMasker([]string{"correct horse/battery", "short", "first line of key\nsecond line of key"})
	for in, want := range map[string]string{
		"a correct horse/battery b":                                        "a [masked] b",
		"q=correct+horse%2Fbattery":                                        "q=[masked]",
		base64.StdEncoding.EncodeToString([]byte("correct horse/battery")): masked,
		"short is too short":                                               "short is too short",
		"x second line of key x":                                           "x [masked] x",
		"ghp_" + strings.Repeat("aB3", 12):                                 masked,
		"Authorization: Bearer abc.def":                                    "Authorization: Bearer [masked]",
		"x-api-key: abcdef":                                                "x-api-key: [masked]",
		"nats://bot:pa55@10.0.0.1:4222":                                    "nats://bot:[masked]@10.0.0.1:4222",
		"MY_TOKEN=abcdefgh rest":                                           "MY_TOKEN=[masked] rest",
		"sk-ant-" + strings.Repeat("a1", 10):                               masked,
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter": "[masked]\nafter",
		"digest sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0":  "digest sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0",
	} {
		if got := m.text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// TestLineMaskerWhateverThePieces: however a stream is cut into writes, the same comes out, and no secret with it.
func TestLineMaskerWhateverThePieces(t *testing.T) {
	const secret = "s3cr3t-value-0123456789"
	m := newMasker([]string{secret})
	long := strings.Repeat("x", 20_000)
	in := "one " + secret + "\n" + long + secret + long + "\n-----BEGIN PRIVATE KEY-----\nMIIE" + secret + "\n-----END PRIVATE KEY-----\nend " + secret
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var out bytes.Buffer
		l := &lineMasker{to: &out, mask: m}
		for rest := []byte(in); len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(3000))
			_, _ = l.Write(rest[:n])
			rest = rest[n:]
		}
		l.flush()
		want := "one [masked]\n" + long + masked + long + "\n[masked]\nend [masked]"
		if got := out.String(); got != want {
			t.Fatalf("%d bytes, want %d; secret in it: %v", len(got), len(want), strings.Contains(got, secret))
		}
	}
}

func TestLogLinesStandOnTheirOwn(t *testing.T) {
	var out bytes.Buffer
	c := &console{to: &out}
	log := logLines{c, newMasker([]string{"hunter2-hunter2"})}
	_, _ = c.Write([]byte("half a line"))
	_, _ = log.Write([]byte("{\"msg\":\"hunter2-hunter2\"}\n"))
	_, _ = c.Write([]byte("whole\n"))
	_, _ = log.Write([]byte("{}\n"))
	want := "half a line\nretake-worker: {\"msg\":\"[masked]\"}\nwhole\nretake-worker: {}\n"
	if got := out.String(); got != want {
		t.Errorf("got %q", got)
	}
}

func TestChildEnvironment(t *testing.T) {
	got := childEnvironment([]string{
		"ANTHROPIC_API_KEY=sk-the-agent-needs-it", "RETAKE_BUS_PASSWORD=x", "NATS=nats://u:bus-password@h", "HOME=/home/x", "broken", "=odd",
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
	f, err := openFolder(dir)
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
	f, err := openFolder(dir)
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
	if got := f.list(spoolFolder); !slices.Equal(got, []string{"a.json"}) {
		t.Errorf("in the folder: %v", got)
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
	file := write(`{"worker_id":"k3v9qx2m-1","issue":{"key":"acme/widgets#21"},"attempt":1,"bus":{"url":"nats://h"},"workdir":"/w","stages":[{"name":"CODE","run":["x"]}]}`)
	p, removeErr, err := loadPlan(file)
	if err != nil || removeErr != nil {
		t.Fatal(err, removeErr)
	}
	if p.AttemptID != "k3v9qx2m-1" || p.Issue.Number != 21 || p.FixAttempts != 1 || p.Bus.MaxMessageBytes != defaultMessage {
		t.Errorf("defaults: %+v", p)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the plan is still there")
	}
	for text, says := range map[string][]string{
		`{`:   {"unexpected end"},
		`{}`:  {"worker_id", "issue", "attempt", "bus.url", "workdir", "stages"},
		`[1]`: {"array"},
		`{"worker_id":"a.b","attempt_id":"c","stages":[{"name":"","run":[],"timeout_seconds":-1}]}`: {"a.b", "stages[0].name", "stages[0].run", "stages[0].timeout_seconds"},
	} {
		_, _, err := loadPlan(write(text))
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
	if _, _, err := loadPlan("/no/such/plan"); !errors.Is(err, ErrPlan) {
		t.Errorf("got %v", err)
	}
}

func TestExitCodesAreDistinct(t *testing.T) {
	seen := map[ExitCode]bool{2: true} // the Go runtime's own
	for _, row := range Exits() {
		if seen[row.Code] || row.Means == "" || row.Sent == "" {
			t.Errorf("row %+v", row)
		}
		seen[row.Code] = true
	}
}
