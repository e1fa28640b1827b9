package director

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
)

// paints is an agent that changes a file.
const paints = `echo "$RETAKE_ISSUE" >"work-${RETAKE_ISSUE##*#}.txt"`

// incidents returns the issues that show incidents.
func (s *harness) incidents() (all []githubtest.Issue) {
	for _, i := range s.github.Issues(repo) {
		if strings.HasPrefix(i.Title, "Retake is waiting") {
			all = append(all, i)
		}
	}
	return all
}

// TestMissingProgramHoldsTheQueue checks that a missing program of a stage is one incident. The director does not claim
// issues before the program appears. Then it claims all of them.
func TestMissingProgramHoldsTheQueue(t *testing.T) {
	t.Parallel()
	s := newReal(t, nil, code("painter"))
	keys := []string{
		s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task"),
		s.github.CreateIssue(repo, "octocat", "Glue", "", "agent-task"),
	}
	s.start()
	const says = "painter, which CODE runs, is not on the director's machine"
	s.until("an incident with both issues", func() bool {
		all := s.incidents()
		return len(all) == 1 && strings.Contains(all[0].Body, says) && strings.Contains(all[0].Body, "#1") &&
			strings.Contains(all[0].Body, "#2")
	})
	h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
	must(t, err)
	if h.OK || !strings.Contains(h.Problem, says) {
		t.Errorf("health: %+v", h)
	}
	for _, key := range keys {
		if i := s.github.Issue(key); !slices.Equal(i.Labels, []string{"agent-task"}) || len(i.Comments) > 0 {
			t.Errorf("%s is claimed: %v, %d comments", key, i.Labels, len(i.Comments))
		}
		if told := s.explained(key); told.State != "Queued" || !strings.Contains(told.Waits, says) {
			t.Errorf("explain %s: %s waits for %q", key, told.State, told.Waits)
		}
	}
	s.placeProgram("painter")
	for _, key := range keys {
		s.until(key+" is done", s.labelled(key, "agent-review"))
	}
	s.until("the incident is over", func() bool {
		all := s.incidents()
		return len(all) == 1 && all[0].State == "closed"
	})
	if h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir); err != nil || !h.OK {
		t.Errorf("health afterwards: %+v, %v", h, err)
	}
}

// placeProgram installs an agent on the machine.
func (s *harness) placeProgram(name string) {
	s.t.Helper()
	to := filepath.Join(filepath.Dir(s.config.Director.DataDir), "bin", name)
	must(s.t, os.WriteFile(to+".new", []byte("#!/bin/sh\n"+paints+"\n"), 0o755))
	must(s.t, os.Rename(to+".new", to))
}

// TestMissingProgramEndsWithAReload checks that a reload that names an installed program ends the incident.
func TestMissingProgramEndsWithAReload(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"brush": paints}, code("painter"))
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	f := s.rereads()
	s.until("an incident", func() bool { return len(s.incidents()) == 1 })
	f.write(func(c *config.Config) { c.Stages = []config.Stage{code("brush")} })
	if r := s.reload(); len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	s.until("it is done", s.labelled(key, "agent-review"))
	s.until("the incident is over", func() bool { return s.incidents()[0].State == "closed" })
}

// TestMissingProgramOfTheCheckout checks that the director does not search for a program of the checkout, because there
// is no checkout before the claim. If it is missing, the issue itself fails.
func TestMissingProgramOfTheCheckout(t *testing.T) {
	t.Parallel()
	s := newReal(t, nil, code("./paint.sh"))
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	if q := s.question(key); !strings.Contains(q, "./paint.sh") || len(s.incidents()) > 0 {
		t.Errorf("incidents %v, and the question:\n%s", s.incidents(), q)
	}
}

// TestMissingProgramOfTheImage checks that the search runs in a container of the image, which has only one program.
func TestMissingProgramOfTheImage(t *testing.T) {
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		if os.Getenv("RETAKE_REQUIRE_DOCKER") != "" {
			t.Fatalf("%v: %s", err, out)
		}
		t.Skip("no Docker engine answers:", err)
	}
	s := newHarness(t, nil)
	placeWorker(t, s.options().WorkerBinary)
	s.config.Containers.Runtime, s.config.Containers.Image = "docker", cheatImage(t)
	s.config.Director.Fleet = "programs-" + strings.ToLower(loop.NewNonce())
	s.config.Containers.Network = s.config.Director.Fleet
	s.config.Stages = []config.Stage{code("/cheat"), {Name: "VALIDATE", Run: []string{"tester"}, Timeout: time.Minute}}
	t.Cleanup(func() {
		s.stop()
		dockerLine(t, "network", "rm", s.config.Containers.Network)
	})
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("an incident", func() bool { return len(s.incidents()) == 1 })
	want := "tester, which VALIDATE runs, is not in the image " + s.config.Containers.Image
	if body := s.incidents()[0].Body; !strings.Contains(body, want) || strings.Contains(body, "/cheat") {
		t.Errorf("want %q in\n%s", want, body)
	}
	if i := s.github.Issue(key); !slices.Equal(i.Labels, []string{"agent-task"}) {
		t.Errorf("%s is claimed: %v", key, i.Labels)
	}
}
