package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"retake/internal/bus/chain"
	"retake/internal/terminal"
)

// TestForeignJournalsCannotSteerTerminals reads a hostile journal with control characters in its texts, and a truncated
// copy.
func TestForeignJournalsCannotSteerTerminals(t *testing.T) {
	dir := demoJournal(t)
	hostile := filepath.Join(dir, "hostile.jsonl.zst")
	const esc = `\u001b]0;x\u0007\u009b2J\u202e`
	steering := strings.NewReplacer(`"title":"`, `"title":"`+esc, `"url":"`, `"url":"`+esc, `"why":"`, `"why":"`+esc,
		`"row":"`, `"row":"`+esc, `"rule":"`, `"rule":"`+esc, `"stage":"`, `"stage":"`+esc, `"cause":"`, `"cause":"`+esc)
	var head chain.Head
	changed := 0
	err := chain.Create(hostile, chain.Source{}, head, func(w *chain.Writer) error {
		_, err := chain.Read(filepath.Join(dir, "demo.jsonl.zst"), func(r chain.Record) error {
			data := []byte(steering.Replace(string(r.Data)))
			changed += len(data) - len(r.Data)
			r.Data, r.Prev = data, w.Head().Digest.String()
			return w.Add(r)
		}, nil)
		return err
	})
	if err != nil || changed == 0 {
		t.Fatal(changed, err)
	}
	short := filepath.Join(dir, "short.jsonl.zst")
	data, err := os.ReadFile(hostile)
	if err == nil {
		err = os.WriteFile(short, data[:len(data)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"explain demo/widgets#2 --journal", "explain demo/widgets#2 --json --journal",
		"replay --set director.max_retries=1 --journal", "replay --set director.max_retries=1 --json --journal",
	} {
		for _, file := range []string{hostile, short} {
			var out, errs bytes.Buffer
			c := command()
			c.SetArgs(append(strings.Fields(args), file))
			c.SetOut(&terminal.Writer{To: &out})
			code := exitCode(c.ExecuteContext(t.Context()), &errs)
			said := out.String() + errs.String()
			if (code == 2) != (file == short) || said == "" {
				t.Errorf("%s %s: exit %d, %.300s", args, filepath.Base(file), code, said)
			}
			if at := strings.IndexFunc(said, func(r rune) bool {
				return r != '\n' && r != '\t' && (unicode.IsControl(r) || r == '\u202e')
			}); at >= 0 {
				t.Errorf("%s: %q", args, said[max(0, at-40):min(at+40, len(said))])
			}
		}
	}
}
