package fsm

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the random worlds longer than rapid's default, so that they fit a claim's whole life. Flags on the
// command line take precedence: go test ./internal/fsm -rapid.checks=20000 -rapid.steps=400.
func TestMain(m *testing.M) {
	checks := "50"
	if os.Getenv("RETAKE_NIGHTLY") == "1" {
		checks = "1000"
	}
	for name, value := range map[string]string{"rapid.steps": "150", "rapid.checks": checks} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
