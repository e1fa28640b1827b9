package director

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/zap/zapcore"

	"retake/internal/bus/chain"
	"retake/internal/config"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
)

// babbler is an agent that prints secrets to every output that people read.
const babbler = `package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	text, _ := os.ReadFile(os.Getenv("BABBLE"))
	said := string(text)
	if os.Getenv("RETAKE_STAGE") != "CODE" {
		fmt.Println("tests fail:\n" + said)
		os.Exit(1)
	}
	issue, _ := os.ReadFile(".retake/attempt.json")
	fmt.Print("out\n", said)
	for i := 0; i < len(said); i += 3 { // a few letters at a time
		os.Stderr.WriteString(said[i:min(i+3, len(said))])
	}
	os.WriteFile("notes.txt", []byte("nothing\n"), 0o644)
	exec.Command("git", "commit", "-qam", said).Run()
	switch {
	case strings.Contains(string(issue), "asks"):
		os.WriteFile(".retake/question.md", []byte("Which of these?\n\n" + said), 0o644)
	case strings.Contains(string(issue), "fails"):
		fmt.Fprintln(os.Stderr, "fatal: cannot log in: " + strings.ReplaceAll(said, "\n", " "))
		os.Exit(1)
	case strings.Contains(string(issue), "pushes"):
		os.WriteFile("notes.txt", text, 0o644)
	}
}
`

// spellings returns a value in the encodings that the agent has at hand.
func spellingsOf(v string) map[string]string {
	wide := ""
	for _, c := range v {
		wide += string(c) + "\x00"
	}
	backwards := []byte(v)
	slices.Reverse(backwards)
	quoted, _ := json.Marshal(v) // cannot fail
	percent := ""
	for _, c := range []byte(v) {
		percent += fmt.Sprintf("%%%02X", c)
	}
	return map[string]string{
		"plain": v, "base64": base64.StdEncoding.EncodeToString([]byte(v)),
		"base64, 1 off": base64.StdEncoding.EncodeToString([]byte("x" + v)),
		"base64, 2 off": base64.RawURLEncoding.EncodeToString([]byte("xy" + v)),
		"base32":        base32.StdEncoding.EncodeToString([]byte(v)), "hex": hex.EncodeToString([]byte(v)),
		"hex, capitals": strings.ToUpper(hex.EncodeToString([]byte(v))), "query": url.QueryEscape(v),
		"percent": percent,
		"json":    string(quoted), "html": html.EscapeString(v), "backwards": string(backwards), "UTF-16": wide,
		"over lines": v[:9] + "\n" + v[9:18] + "\n" + v[18:],
		"zero width": strings.Join(strings.Split(v, ""), "\u200b"), "spaced": strings.Join(strings.Split(v, ""), " "),
		"dashes": strings.ReplaceAll(v, "-", "%2D"),
	}
}

// shapedSecrets returns credentials that the agent did not receive. They have a known shape, or a name in front. The
// secret is the second part.
func shapedSecrets() map[string][2]string {
	r := strings.Repeat
	own := map[string]string{
		"GitHub": "gh" + "p_" + r("aB3dE5fG7", 4), "SendGrid": "S" + "G." + r("aB3dE5fG7hJ", 2) + "." +
			r("kL1mN3pQ5rS7t", 3) + "uV9w", "Vault": "hv" + "s." + r("aB3dE5fG7h", 10),
		"DigitalOcean": "dop" + "_v1_" + r("0a1b2c3d4e5f6789", 4), "age": "AGE-SECRET-" + "KEY-1" +
			r("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA", 2)[:58],
		"Discord":   "MTk4NjIyNDgzNDcxOTI1MjQ4" + "." + "Cl2FMQ" + "." + "ZnCjm1XVW7vRze4b7Cq4se7kKWsa1B2c3D4e5F",
		"Anthropic": "sk-" + "ant-api03-" + r("aB3dE5fG7h", 9) + "aB3AA",
		"JWT": "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." +
			"dozjgNryP4J3jVmNHl0w5N9XaB3dE5fG7hJ9kL1mN3p",
	}
	out := map[string][2]string{}
	for name, s := range own {
		out[name] = [2]string{"key " + s + " is used", s}
	}
	for name, s := range map[string][2]string{
		"DB_PASS": {"DB_PASS=%s", "Gr4ph1tex9-q"}, "AccountKey": {
			"AccountName=x;AccountKey=%s;EndpointSuffix=y",
			r("aB3dE5fG7hJ9kL1m", 5) + "N3pQ5r==",
		}, "URL": {"postgres://app:%s@db/x", "Xk29fjQw7Lp"},
		"header": {"Authorization: Bearer %s", "kL1mN3pQ5rS7tU9vW1"},
		"json":   {`{"client_secret": "%s"}`, "zX8cV6bN4mL2kJ0h"},
	} {
		out[name] = [2]string{fmt.Sprintf(s[0], s[1]), s[1]}
	}
	return out
}

// findings returns the parts of secrets that remain in a text.
func findings(text string, known *leak.Finder) (found []string) {
	for _, m := range known.Find(text) {
		found = append(found, fmt.Sprintf("%s, %s: %q", m.Name, m.As, text[max(0, m.At-30):min(len(text), m.End+10)]))
	}
	for name, s := range shapedSecrets() {
		secret := s[1]
		for at := 4; at+10 <= len(secret); at++ {
			if i := strings.Index(text, secret[at:at+10]); i >= 0 {
				found = append(found, fmt.Sprintf("%s: %q", name, text[max(0, i-40):min(len(text), i+20)]))
				break
			}
		}
	}
	return found
}

// shownAt returns the text of a page.
func (s *harness) shownAt(path string) string {
	s.t.Helper()
	resp, err := http.Get(s.address(path))
	must(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(s.t, err)
	if resp.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %s", path, resp.Status)
	}
	return string(text)
}

// babbles makes the workers of a director print a key in all encodings, and other credentials. It returns their output.
func (s *harness) babbles(key string) (text string) {
	s.t.Helper()
	c := &s.config
	base := filepath.Dir(c.Director.DataDir)
	placeWorker(s.t, filepath.Join(base, "worker"))
	// plain processes of another user pass through
	for dir := c.Director.DataDir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		must(s.t, os.MkdirAll(dir, 0o755))
		must(s.t, os.Chmod(dir, 0o755))
	}
	program := filepath.Join(base, "babbler")
	must(s.t, os.WriteFile(program+".go", []byte(babbler), 0o600))
	must(s.t, buildStatic(program+".go", program))
	for _, name := range sortedKeys(spellingsOf(key)) {
		text += "this is " + name + ":\n" + spellingsOf(key)[name] + "\n"
	}
	for _, shaped := range shapedSecrets() {
		text += shaped[0] + "\n"
	}
	must(s.t, os.WriteFile(filepath.Join(base, "said"), []byte(text), 0o644))
	s.t.Cleanup(func() {
		if s.stop(); s.t.Failed() {
			killWorkers(s.t, filepath.Join(base, "worker"), c.Director.DataDir)
		}
	})
	c.Director.HTTPListen, c.Director.MaxRetries = "127.0.0.1:0", 1
	c.Containers.Runtime = "process"
	c.Containers.Env = map[string]string{"MODEL_API_KEY": key, "BABBLE": filepath.Join(base, "said")}
	c.Stages = []config.Stage{
		{Name: "CODE", Run: []string{program}, Timeout: time.Minute},
		{Name: "VALIDATE", Run: []string{program}, Timeout: time.Minute},
	}
	return text
}

// search finds secrets in all texts for people.
type search struct {
	*harness
	known  *leak.Finder
	places int
}

// look searches one text, which must not be empty.
func (s *search) look(place, text string) {
	s.t.Helper()
	if s.places++; text == "" {
		s.t.Errorf("%s: no text", place)
	}
	for _, f := range findings(text, s.known) {
		s.t.Errorf("%s: %s", place, f)
	}
}

// lookAtIssue searches the comments on an issue, and the director's views of its task.
func (s *search) lookAtIssue(issue string) {
	s.t.Helper()
	v := s.github.Issue(issue)
	for _, comment := range v.Comments {
		s.look("a comment on "+v.Title, comment.Body)
	}
	if !strings.Contains(fmt.Sprint(v.Comments), redact.Marker) {
		s.t.Errorf("%s: no comment has a masked secret, so the test proves nothing: %v", v.Title, v.Comments)
	}
	told, err := operator.AskTask(s.t.Context(), s.config.Director.DataDir, fsm.IssueKey(issue), time.Time{})
	must(s.t, err)
	data, err := json.Marshal(told)
	must(s.t, err)
	s.look("explain "+v.Title, string(data))
	s.look("output of "+v.Title, strings.Join(s.printed(issue, output.Filter{}), "\n"))
	s.look("page of "+v.Title, s.shownAt("/tasks/"+strings.Replace(issue, "#", "/", 1)))
}

// lookAtJournal searches an export of the journal.
func (s *search) lookAtJournal() {
	s.t.Helper()
	journal := filepath.Join(s.t.TempDir(), "journal.jsonl")
	_, err := offline.Export(s.t.Context(), s.config, journal)
	must(s.t, err)
	var data []byte
	_, err = chain.Read(journal, func(r chain.Record) error { data = append(data, r.Data...); return nil },
		func(st chain.State) error { data = append(data, st.Data...); return nil })
	must(s.t, err)
	s.look("journal", string(data))
}

// lookAtFiles searches the audits and stored outputs.
func (s *search) lookAtFiles() {
	s.t.Helper()
	must(s.t, filepath.WalkDir(s.config.Director.DataDir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.config.Director.DataDir, path)
		first, _, _ := strings.Cut(rel, string(filepath.Separator))
		if err != nil || e.IsDir() || !slices.Contains([]string{"audits", "outputs", "errors"}, first) &&
			!strings.HasPrefix(first, "audit") {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".zst") {
			var z *zstd.Decoder
			if z, err = zstd.NewReader(bytes.NewReader(data)); err == nil {
				data, err = io.ReadAll(z)
				z.Close()
			}
		}
		if len(data) > 0 {
			s.look(rel, string(data))
		}
		return err
	}))
}

// TestNoSecretIsReadAnywhere lets an agent print its keys in all encodings, and credentials that it found. They are in
// its output, its question, its commits, its files and its failures. None of them may appear on GitHub, in the log, the
// audits, the journal, stored output, the page or explain.
func TestNoSecretIsReadAnywhere(t *testing.T) {
	t.Parallel()
	const key = "kq7Zp-Lw4Rt8-Vb3Nm6-Xc2Yd9"
	s := newHarness(t, nil)
	text := s.babbles(key)
	known := leak.New(leak.Value{Name: "key", Text: key})
	if n := len(findings(text, known)); n < 15 {
		t.Fatalf("the agent prints too little: only %d secrets found in its output", n)
	}
	var hides atomic.Pointer[func() *redact.Redactor]
	s.hideInLog = func(values func() *redact.Redactor) { hides.Store(&values) }
	s.start()
	var issues []string
	for _, title := range []string{"It asks", "It fails", "It pushes", "It is judged"} {
		issues = append(issues, s.github.CreateIssue(repo, "octocat", title, "", "agent-task"))
	}
	for _, issue := range issues {
		s.until(issue+" is blocked", s.labelled(issue, "agent-blocked"))
		s.until("its comment", func() bool { return len(s.github.Issue(issue).Comments) > 1 })
	}
	found := &search{harness: s, known: known}
	for _, issue := range issues {
		found.lookAtIssue(issue)
	}
	found.look("page", s.shownAt("/"))
	for _, e := range s.logs.All() {
		line, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg"}).EncodeEntry(e.Entry, e.Context)
		must(t, err)
		found.look("log", (*hides.Load())().JSON(line.String()))
	}
	s.stop()
	found.lookAtJournal()
	found.lookAtFiles()
	t.Logf("%d places were searched", found.places)
}
