package director

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/config"
)

// imports adds a commit to main. Each line is a line of git fast-import, such as "M 160000 <sha> libs/w". The text of
// inline files follows.
func (s *harness) imports(lines ...string) {
	s.t.Helper()
	cmd := exec.Command("git", "fast-import", "--quiet", "--date-format=now")
	cmd.Dir = filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", repo+".git")
	cmd.Stdin = strings.NewReader("commit refs/heads/main\ncommitter A <a@example.com> now\ndata 6\nchange\n" +
		"from refs/heads/main^0\n" + strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// inline returns the fast-import line of a file with its content.
func inline(name, text string) string {
	return fmt.Sprintf("M 100644 inline %s\ndata %d\n%s", name, len(text), text)
}

// withSubmodule adds a submodule at libs/w. Its commit does not exist.
func (s *harness) withSubmodule() {
	s.t.Helper()
	s.imports(inline(".gitmodules", "[submodule \"w\"]\n\tpath = libs/w\n\turl = https://example.com/w.git\n"),
		"M 160000 "+strings.Repeat("1", 40)+" libs/w")
}

// TestAsksAboutWhatCannotBeDelivered checks that the director asks about a file in a submodule, a file under a filter,
// a name that git refuses, and a nested repository. The question names the file, and all work stays on this machine.
func TestAsksAboutWhatCannotBeDelivered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*harness)
		agent  string
		says   []string
	}{
		"in a submodule": {
			(*harness).withSubmodule, "echo x > libs/w/inside.txt && echo x > new.txt",
			[]string{"libs/w/inside.txt", "submodule libs/w", "scope.allow_left_out"},
		},
		"only in a submodule": {
			(*harness).withSubmodule, "mkdir libs/w/a && echo x > libs/w/a/inside.txt",
			[]string{"libs/w/a/inside.txt", "submodule libs/w"},
		},
		"under a filter": {
			func(s *harness) { s.imports(inline(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")) },
			"head -c 4000 /dev/zero > b.bin && echo x > new.txt",
			[]string{"b.bin", "filter=lfs", "scope.allow_raw"},
		},
		"a name that git refuses": {
			func(*harness) {}, "mkdir 'GIT~1' && echo x > 'GIT~1/config' && echo x > new.txt",
			[]string{"GIT~1", "git refuses"},
		},
		"a nested repository": {
			func(*harness) {}, "git init -q sub && echo x > sub/x && echo x > new.txt",
			[]string{"sub/.git", "plain files", "scope.allow_left_out"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReal(t, map[string]string{"agent": c.agent}, code("agent"))
			c.before(s)
			key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
			s.start()
			q := s.question(key)
			for _, want := range c.says {
				if !strings.Contains(q, want) {
					t.Errorf("the question lacks %q:\n%s", want, q)
				}
			}
			if got := s.branches(); len(got) != 1 {
				t.Errorf("branches on the remote: %q", got)
			}
			if v := s.verdicts(key); len(v) != 1 || v[0] != "policy_violation" {
				t.Errorf("verdicts %q", v)
			}
		})
	}
}

// TestDeliversAfterTheAnswer checks that the kept work is delivered once the agent has followed the answer.
func TestDeliversAfterTheAnswer(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{
		"agent": "if test -f new.txt\nthen rm -r libs/w/*\nelse echo x > new.txt\ncp new.txt libs/w/inside.txt\nfi",
	}, code("agent"))
	s.withSubmodule()
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.question(key)
	s.github.AddComment(key, "octocat", "/agent retry clear the submodule")
	s.until("review", s.labelled(key, "agent-review"))
	if got := s.git("ls-tree", "-r", "retake/1-a2", "libs/w", "new.txt"); !strings.Contains(got,
		"160000 commit "+strings.Repeat("1", 40)) || !strings.Contains(got, "new.txt") {
		t.Errorf("delivered:\n%s", got)
	}
}

// TestDeliversAfterARename checks a directory whose name git refuses. The agent follows the question's advice to rename
// it, and the delivery has the file under its new name.
func TestDeliversAfterARename(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{
		"agent": "if test -d 'GIT~1'\nthen mv 'GIT~1' git-one\nelse mkdir 'GIT~1' && echo x > 'GIT~1/settings'\nfi",
	}, code("agent"))
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	if q := s.question(key); !strings.Contains(q, "rename or remove it") || !strings.Contains(q, "/agent retry") {
		t.Errorf("the question does not advise a rename and another attempt:\n%s", q)
	}
	s.github.AddComment(key, "octocat", "/agent retry rename GIT~1 to git-one")
	s.until("review", s.labelled(key, "agent-review"))
	if got := s.git("ls-tree", "-r", "--name-only", "retake/1-a2"); !strings.Contains(got, "git-one/settings") ||
		strings.Contains(got, "GIT~1") {
		t.Errorf("delivered:\n%s", got)
	}
}

// TestDeliversWhatTheSettingsAllow checks that work with files in a submodule, under a filter and in a nested
// repository is delivered if settings name them.
func TestDeliversWhatTheSettingsAllow(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{
		"agent": "echo x > libs/w/build.o && echo raw > b.bin && git init -q sub && echo nested > sub/x",
	}, code("agent"))
	s.withSubmodule()
	s.imports(inline(".gitattributes", "*.bin filter=lfs\n"))
	s.config.Scope.AllowLeftOut, s.config.Scope.AllowRaw = []string{"libs/w/**/*.o", "sub/.git"}, []string{"*.bin"}
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if got := s.git("show", "retake/1-a1:b.bin"); got != "raw\n" {
		t.Errorf("b.bin is %q", got)
	}
	if got := s.git("ls-tree", "-r", "--name-only", "retake/1-a1", "sub"); got != "sub/x\n" {
		t.Errorf("delivered of the nested repository: %q", got)
	}
}

// TestDeliversToASHA256Repository validates and delivers work without any setting for the format.
func TestDeliversToASHA256Repository(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"agent": "echo x > new.txt"}, code("agent"))
	s.config.Stages = append(s.config.Stages, config.Stage{Name: "VALIDATE", Run: []string{"test", "-f", "new.txt"}})
	s.asSHA256()
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if sha := strings.TrimSpace(s.git("rev-parse", "retake/1-a1")); len(sha) != 64 {
		t.Errorf("delivered %s", sha)
	}
}

// asSHA256 replaces the repository by one in the SHA-256 format.
func (s *harness) asSHA256() {
	s.t.Helper()
	dir := filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", repo+".git")
	for _, line := range []string{
		"rm -rf " + dir, "git init -q --bare -b main --object-format=sha256 " + dir,
		"git -C " + dir + " config http.receivepack true",
		"cd " + dir + " && t=$(git mktree </dev/null) && git update-ref refs/heads/main " +
			"$(git -c user.name=A -c user.email=a@example.com commit-tree -m x $t)",
	} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			s.t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// TestRefusedByARenamedBranch renames the base branch while an agent works. The question names the new branch, and the
// work stays in the checkout.
func TestRefusedByARenamedBranch(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"agent": "echo x > new.txt\nuntil rm go 2>/dev/null\ndo sleep 0.1\ndone"},
		code("agent"))
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	var work string
	s.until("the agent works", func() bool {
		found, err := filepath.Glob(filepath.Join(s.config.Director.DataDir, "tasks/*/checkout/new.txt"))
		must(t, err)
		if len(found) == 1 {
			work = found[0]
		}
		return work != ""
	})
	s.git("branch", "-m", "main", "trunk")
	must(t, os.WriteFile(filepath.Join(filepath.Dir(work), "go"), nil, 0o666))
	q := s.question(key)
	for _, want := range []string{"no branch main", "default branch is trunk", "github.base_branch", "invalid_config"} {
		if !strings.Contains(q, want) {
			t.Errorf("the question lacks %q:\n%s", want, q)
		}
	}
	if _, err := os.Stat(work); err != nil {
		t.Errorf("the work is not kept: %v", err)
	}
}

// TestRefusedByAnEmptyRepository checks that the director does not start on an empty repository, and reports that a
// first commit is missing.
func TestRefusedByAnEmptyRepository(t *testing.T) {
	t.Parallel()
	s := newReal(t, nil, code("agent"))
	s.git("update-ref", "-d", "refs/heads/main")
	if err := Run(t.Context(), s.options()); err == nil || !strings.Contains(err.Error(), "push a first commit") {
		t.Errorf("got %v", err)
	}
}
