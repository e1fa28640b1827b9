package attack

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"retake/internal/bus/chain"
	"retake/internal/config"
	"retake/internal/director/offline"
	"retake/internal/secrets/redact"
	"retake/internal/testbed"
)

// onSecrets are attacks with secrets in an agent's texts.
const onSecrets kind = "secrets"

// givenKey is a value that every agent of the siege gets.
const givenKey = "kq7Zp-Lw4Rt8-Vb3Nm6-Xc2Yd9"

// spellings returns the forms in which an agent writes its secrets. The search covers all of them.
func spellings() map[string]string {
	v := givenKey
	backwards := reversed(v)
	return map[string]string{
		"plain": v, "base64": base64.StdEncoding.EncodeToString([]byte(v)),
		"base64, 1 off": base64.StdEncoding.EncodeToString([]byte("x" + v)),
		"base64, 2 off": base64.RawURLEncoding.EncodeToString([]byte("xy" + v)),
		"base32":        base32.StdEncoding.EncodeToString([]byte(v)), "hex": hex.EncodeToString([]byte(v)),
		"hex, capitals": strings.ToUpper(hex.EncodeToString([]byte(v))), "backwards": backwards,
		"over lines": v[:9] + "\n" + v[9:18] + "\n" + v[18:], "zero width": strings.Join(strings.Split(v, ""),
			"\u200b"), "spaced": strings.Join(strings.Split(v, ""), " "), "dashes": strings.ReplaceAll(v, "-", "%2D"),
		"query": url.QueryEscape("&" + v),
	}
}

// shaped returns credentials that the director does not know, and can only recognise by their shape or the name
// before them. Each has a printed form and a secret part. They are assembled at run time, so that this file does not
// contain them.
func shaped() map[string][2]string {
	r := strings.Repeat
	all := map[string][2]string{}
	for name, s := range map[string]string{
		"SendGrid": "S" + "G." + r("aB3dE5fG7hJ", 2) + "." + r("kL1mN3pQ5rS7t", 3) + "uV9w", "Vault": "hv" + "s." +
			r("aB3dE5fG7h", 10), "DigitalOcean": "dop" + "_v1_" + r("0a1b2c3d4e5f6789", 4),
		"Discord": "MTk4NjIyNDgzNDcxOTI1MjQ4" + "." + "Cl2FMQ" + "." + "ZnCjm1XVW7vRze4b7Cq4se7kKWsa1B2c3D4e5F",
		"age":     "AGE-SECRET-" + "KEY-1" + r("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA", 2)[:58],
	} {
		all[name] = [2]string{"key " + s + " is used", s}
	}
	for name, s := range map[string][2]string{
		"DB_PASS": {"DB_PASS=%s", "Gr4ph1tex9-qLm7Wz"}, "AccountKey": {
			"AccountName=x;AccountKey=%s;EndpointSuffix=y",
			r("aB3dE5fG7hJ9kL1m", 5) + "N3pQ5r==",
		},
	} {
		all[name] = [2]string{fmt.Sprintf(s[0], s[1]), s[1]}
	}
	return all
}

// allSaid returns the agent's output.
func allSaid() (text string) {
	for _, name := range slices.Sorted(maps.Keys(spellings())) {
		text += "this is " + name + ":\n" + spellings()[name] + "\n"
	}
	for _, name := range slices.Sorted(maps.Keys(shaped())) {
		text += shaped()[name][0] + "\n"
	}
	return text
}

var (
	escapes = regexp.MustCompile(`\\[nrt]|\\u[0-9a-f]{4}|&#[0-9]+;`)
	noSign  = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// squeezed returns only the letters and digits of a text, because other characters between them do not hide a secret.
func squeezed(text string) string {
	return noSign.ReplaceAllString(escapes.ReplaceAllString(text, ""), "")
}

// part is the length, in letters and digits, from which a readable part of a secret counts as a leak.
const part = 10

// secretsIn returns the secrets that a text shows in part.
func secretsIn(text string) (found []string) {
	text = squeezed(text)
	look := func(name, secret string) {
		secret = squeezed(secret)
		for at := 3; at+part <= len(secret); at++ { // the first characters may only name the kind of secret
			if strings.Contains(text, secret[at:at+part]) {
				found = append(found, name)
				return
			}
		}
	}
	for name, s := range spellings() {
		look(name, s)
	}
	for name, s := range shaped() {
		look(name, s[1])
	}
	slices.Sort(found)
	return found
}

// search searches all output of the director, on GitHub and on this machine, for secrets.
func (s *siege) search(key string) error {
	var errs []error
	places := map[string]int{}
	look := func(kind, place, text string) {
		places[kind]++
		if found := secretsIn(text); len(found) > 0 {
			errs = append(errs, fmt.Errorf("%s has %s", place, strings.Join(found, ", ")))
		}
	}
	_, number, _ := strings.Cut(key, "#")
	pull, output := "", "" // pull request and output of this issue
	for _, v := range s.github.Issues(repository) {
		text, err := json.Marshal(v)
		errs = append(errs, err)
		look("issue", v.Key, string(text))
		if strings.HasPrefix(v.Head, "retake/"+number+"-") {
			pull = v.Title + "\n" + v.Body
		}
	}
	for _, args := range [][]string{{"for-each-ref"}, {"log", "--all", "-p", "--stat=500", "--format=fuller"}} {
		text, err := s.git(args...)
		errs = append(errs, err)
		look("git", "git "+args[0], text)
	}
	log, err := os.ReadFile(filepath.Join(s.dir, "director.log"))
	errs = append(errs, err)
	look("log", "the director's log", string(log))
	s.stop()
	journal, err := s.journal()
	errs = append(errs, err)
	look("journal", "the journal", journal)
	errs = append(errs, s.stored(func(path, text string) {
		if look("stored file", path, text); strings.HasPrefix(path, "outputs/"+strings.ReplaceAll(repository, "/", "_")+
			"_"+number+"/") {
			output += text
		}
	}))
	s.start()
	comments, err := json.Marshal(s.github.Issue(key).Comments)
	errs = append(errs, err)
	// A text without a masked secret shows that the agent did not print its secrets.
	for place, text := range map[string]string{"its stored output": output, "texts on GitHub": string(comments) +
		pull} {
		if !strings.Contains(strings.ReplaceAll(text, `\`, ""), redact.Marker) { // Markdown escapes it
			errs = append(errs, fmt.Errorf("the attack did not happen, because %s has no masked secret: %.600s",
				place, text))
		}
	}
	if s.has(key, "agent-review") && pull == "" {
		errs = append(errs, errors.New("the attack did not take place: no pull request was opened"))
	}
	if len(places) < 5 || journal == "" {
		errs = append(errs, fmt.Errorf("some texts could not be read: %v", places))
	}
	return errors.Join(errs...)
}

// journal returns the text of the director's journal.
func (s *siege) journal() (string, error) {
	c, problems := config.Load(s.settings.Config, nil, nil)
	if err := problems.Err(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(s.dir, "journal-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "journal.jsonl")
	if _, err := offline.Export(s.t.Context(), c, file); err != nil {
		return "", err
	}
	var data []byte
	_, err = chain.Read(file, func(r chain.Record) error { data = append(data, r.Data...); return nil },
		func(st chain.State) error { data = append(data, st.Data...); return nil })
	return string(data), err
}

// stored decompresses the director's audits, output and errors and passes them to look.
func (s *siege) stored(look func(path, text string)) error {
	return filepath.WalkDir(s.data(), func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.data(), path)
		first, _, _ := strings.Cut(rel, string(filepath.Separator))
		if err != nil || !e.Type().IsRegular() || !slices.Contains([]string{"outputs", "errors"}, first) &&
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
		look(rel, string(data))
		return err
	})
}

// secretAttacks are agents that print secrets that they were given or found.
func secretAttacks() []inside {
	searched := func(s *siege, key, _ string) error { return s.search(key) }
	said := allSaid()
	progress, _ := json.Marshal(map[string]any{"type": "progress", "step": said})
	final, _ := json.Marshal(map[string]any{"type": "final", "ok": true, "text": "All is done. " + said})
	const holds = "none is read in comments, pull requests, commits, names of branches, the log, the journal, " +
		"audits, stored output"
	before := "succeeded: base64 at other offsets, hex, split over lines, with zero-width characters, %2D, " +
		"DB_PASS, AccountKey, SendGrid, Vault, Discord, DigitalOcean, age"
	return []inside{
		{
			attack: attack{
				name: "secrets in addition to delivered work",
				does: "prints its input in 13 spellings, and 7 credentials, in CODE, as its answer and in " +
					"VALIDATE; its work is delivered as a pull request", holds: holds, before: before,
			},
			code:     [][]string{{"print", said}, {"print", string(progress) + "\n" + string(final) + "\n"}},
			validate: [][]string{{"print", said}}, label: "agent-review",
			check: searched,
		},
		{
			attack: attack{
				name: "secrets in a question", does: "prints the same, and asks a person with it",
				holds: holds, before: before,
			},
			code:  [][]string{{"print", said}, {"question", "text", "Which of these?\n\n" + said}},
			label: "agent-blocked",
			check: searched,
		},
		{
			attack: attack{
				name:  "secrets in a failure",
				does:  "prints the same as its error, and ends with 1",
				holds: holds, before: before,
			},
			code: [][]string{
				{"print", "fatal: cannot log in: " + strings.ReplaceAll(said, "\n", " ")},
				{"print", "error: " + said},
			}, exit: 1, label: "agent-blocked",
			check: searched,
		},
		{
			attack: attack{
				name: "secrets as names of files", does: "prints the same, and has files named by its " +
					"input, plain and in hex, and by credentials", holds: holds + "; a person gets a question",
				before: before,
			},
			code: [][]string{
				{"print", said},
				{"write", givenKey + ".txt", "x"},
				{"write", spellings()["hex"] + "/x.txt", "x"},
				{"write", shaped()["Vault"][1], "x"},
				{"write", shaped()["DB_PASS"][0], "x"},
			},
			label: "agent-blocked", check: searched,
		},
	}
}

// TestSecrets runs the attacks of agents that print secrets. A successful attack fails the test.
func TestSecrets(t *testing.T) {
	if found := secretsIn(allSaid()); len(found) != len(spellings())+len(shaped()) {
		t.Fatalf("the agent's output contains only these: %q", found)
	}
	api := needEngine(t)
	program, err := build(testbed.DirectorProgram)
	must(t, err)
	newSiege(t, api, siegeOptions{
		containers: `env_passthrough = ["MODEL_API_KEY"]`, environ: []string{"MODEL_API_KEY=" + givenKey},
		program: program, delivery: "pull_request",
	}).each(t, onSecrets, secretAttacks())
}
