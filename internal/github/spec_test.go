package github

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/github/command"
)

// TestSpecification compares the tables of the specification with the code. -update rewrites them.
func TestSpecification(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "specs", "github.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	labels := "| label | says to people |\n|---|---|\n"
	for _, l := range createdLabels(t) {
		labels += fmt.Sprintf("| `%s` | %s |\n", l.Name, l.Description)
	}
	words := "| command | effect | where |\n|---|---|---|\n"
	for _, c := range command.All {
		words += fmt.Sprintf("| `%s` | %s | %s |\n", c.Usage, c.Meaning, c.Where)
	}
	text := string(data)
	for name, table := range map[string]string{"labels": labels, "commands": words} {
		head, rest, begins := strings.Cut(text, "<!-- "+name+" -->\n")
		_, tail, ends := strings.Cut(rest, "<!-- /"+name+" -->")
		if !begins || !ends {
			t.Fatalf("no place for the table of %s", name)
		}
		text = head + "<!-- " + name + " -->\n" + table + "<!-- /" + name + " -->" + tail
	}
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != string(data) {
		t.Error("the specification and the code differ. Run: go test ./internal/github -run Specification -update")
	}
}

type createdLabel struct{ Name, Description string }

// createdLabels returns the labels that EnsureLabels creates in a repository without labels.
func createdLabels(t *testing.T) (all []createdLabel) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					var l createdLabel
					body, err := io.ReadAll(r.Body)
					w.must(errors.Join(err, json.Unmarshal(body, &l)))
					r.Body = io.NopCloser(bytes.NewReader(body))
					all = append(all, l)
				}
				return next.RoundTrip(r)
			})
		}))
		w.must(w.sim.AddRepo("acme/fresh", "", map[string]string{"retake-bot": "write"}))
		w.must(c.Labels.EnsureLabels(w.Context(), "acme/fresh"))
	})
	return all
}
