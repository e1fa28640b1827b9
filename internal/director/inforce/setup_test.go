package inforce

import (
	"os"
	"path/filepath"
	"testing"

	"retake/internal/config"
)

// TestWithDoesNotReadFiles checks that the setup of a contract has the policy of the director's setup, although the
// policy file has changed since.
func TestWithDoesNotReadFiles(t *testing.T) {
	c := config.Default()
	c.Recovery.PolicyFile = filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(c.Recovery.PolicyFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Recovery.PolicyFile, []byte("[[row"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := s.Config
	own.Containers.Image = "site:1"
	got, err := s.With(own, false)
	if err != nil || got.Policy != s.Policy || got.Classifier != s.Classifier || got.Containers.Image != "site:1" {
		t.Errorf("got error %v and image %s, want the image site:1 and the same policy", err, got.Containers.Image)
	}
}

// TestWithAcceptedContract checks that work of an accepted contract can be delivered without the agent of its stages.
func TestWithAcceptedContract(t *testing.T) {
	s, err := New(config.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Config
	own.Stages = []config.Stage{{Name: "CODE", Agent: "gone"}}
	if _, err := s.With(own, false); err == nil {
		t.Error("a new contract with a missing agent is accepted")
	}
	if _, err := s.With(own, true); err != nil {
		t.Errorf("an accepted contract with a missing agent: %v", err)
	}
}
