package witness

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"retake/internal/config"
	"retake/internal/recovery/circumstances"
)

var update = flag.Bool("update", false, "record the director's circumstances again, for tests of other packages")

// The stored records, which tests of other packages use, equal the records that the director makes now.
func TestRecordedCircumstances(t *testing.T) {
	c := config.Default()
	other := config.Default()
	other.GitHub.APIURL, other.GitHub.TokenFile = "https://github.example.com/api/v3/", "/etc/token"
	for name, r := range map[string]circumstances.Record{
		"director-github": Own(c), "director-other-github": Own(other), "exit-memory": Exit(c, true, false),
		"exit-watchdog": Exit(c, false, true), "exit": Exit(c, false, false),
	} {
		got, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join("../../../recovery/circumstances/testdata", name+".json")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("recorded %s (%v), now %s\nRun: go test ./internal/director/internal/witness -update",
				want, err, got)
		}
	}
}
