package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The director must not link the stand-in for GitHub and its pages, which only the demo and githubsim need.
func TestDirectorLinksNoStandIn(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		for _, no := range []string{"retake/internal/github/githubtest", "retake/internal/demo", "kin-openapi"} {
			if strings.Contains(pkg, no) {
				t.Errorf("director links %s", pkg)
			}
		}
	}
}
