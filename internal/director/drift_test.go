package director

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// advance pushes commits to the remote's main branch. Each writes a file.
func (s *harness) advance(name string, commits int) (head string) {
	s.t.Helper()
	return s.advanceBranch("main", name, commits)
}

// advanceBranch is like advance, for another branch.
func (s *harness) advanceBranch(branch, name string, commits int) (head string) {
	s.t.Helper()
	dir := s.t.TempDir()
	git := func(args ...string) string {
		s.t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
			"GIT_AUTHOR_NAME=Octocat", "GIT_AUTHOR_EMAIL=octocat@example.com",
			"GIT_COMMITTER_NAME=Octocat", "GIT_COMMITTER_EMAIL=octocat@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	remote := filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", repo+".git")
	git("clone", "-q", "--branch", branch, remote, ".")
	for i := range commits {
		must(s.t, os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "%s, %d\n", branch, i), 0o644))
		git("add", name)
		git("commit", "-q", "-m", "Change "+name)
	}
	git("push", "-q", "origin", branch)
	return git("rev-parse", "HEAD")
}

// newDrift returns a harness with a first attempt that writes a file, reports it, and waits to be killed.
func newDrift(t *testing.T, writes string, next func(ctx context.Context, a *fakeWorker) int) (*harness, chan string) {
	began := make(chan string, 1)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt > 1 {
			return next(ctx, a)
		}
		if err := os.WriteFile(filepath.Join(a.checkout, writes), []byte("half of it\n"), 0o644); err != nil {
			return 1
		}
		began <- a.plan.WorkerID
		<-ctx.Done()
		return 1
	})
	s.config.SyncMain.MaxCommitsBehind, s.config.SyncMain.MaxBehind = 2, 24*time.Hour
	return s, began
}

// If the checkout is more commits behind than the policy tolerates, the director merges the base branch before the
// next attempt and keeps the last attempt's work. At exactly that number it does not merge.
func TestCheckoutThatFellBehindIsMerged(t *testing.T) {
	t.Parallel()
	for behind, merged := range map[int]bool{2: false, 3: true} {
		t.Run(fmt.Sprintf("%d commits", behind), func(t *testing.T) {
			t.Parallel()
			seen := make(chan [2]bool, 1) // the base branch's file and the first attempt's file
			s, began := newDrift(t, "half.txt", func(ctx context.Context, a *fakeWorker) int {
				_, news := os.Stat(filepath.Join(a.checkout, "news.txt"))
				_, half := os.Stat(filepath.Join(a.checkout, "half.txt"))
				seen <- [2]bool{news == nil, half == nil}
				return a.work(ctx)
			})
			key := s.github.CreateIssue(repo, "octocat", "Slow work", "", "agent-task")
			s.start()
			worker := <-began
			s.advance("news.txt", behind)
			s.runtime.killFromOutside(worker)
			s.until("review", s.labelled(key, "agent-review"))
			if got, want := <-seen, [2]bool{merged, true}; got != want {
				t.Errorf("the second attempt found main's and the first one's file: %v, want %v", got, want)
			}
			if n := s.logs.FilterMessage("merged the base branch").Len(); (n == 1) != merged {
				t.Errorf("merged %d times", n)
			}
			if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) {
				t.Errorf("verdicts %q; want only worker_lost", v)
			}
		})
	}
}

// conflicted returns a harness with a checkout and a base branch that both changed README.md.
func conflicted(t *testing.T, next func(ctx context.Context, a *fakeWorker) int) (s *harness, key string) {
	s, began := newDrift(t, "README.md", next)
	key = s.github.CreateIssue(repo, "octocat", "Two at one file", "", "agent-task")
	s.start()
	worker := <-began
	s.advance("README.md", 3)
	s.runtime.killFromOutside(worker)
	return s, key
}

// resolve does the work of an agent that resolves the conflict.
func (a *fakeWorker) resolve(ctx context.Context) int {
	if err := os.WriteFile(filepath.Join(a.checkout, "README.md"), []byte("both\n"), 0o644); err != nil {
		return 1
	}
	return a.work(ctx)
}

// A merge conflict becomes the work of another attempt. Its agent learns of the conflict and finds it in the file.
func TestConflictWithTheBaseBranchIsTheAgentsWork(t *testing.T) {
	t.Parallel()
	found := make(chan string, 2)
	s, key := conflicted(t, func(ctx context.Context, a *fakeWorker) int {
		text, _ := os.ReadFile(filepath.Join(a.checkout, "README.md"))
		found <- string(text)
		found <- a.plan.AttemptFile.Summary + strings.Join(a.plan.AttemptFile.Conflicts, ",")
		return a.resolve(ctx)
	})
	s.until("review", s.labelled(key, "agent-review"))
	if text := <-found; !strings.Contains(text, "<<<<<<< this-task\nhalf of it\n=======\nmain, 2\n>>>>>>> "+
		"base-branch\n") {
		t.Errorf("README.md was\n%s", text)
	}
	if told := <-found; !strings.Contains(told, "> README.md: has conflict markers\n") ||
		!strings.HasSuffix(told, "README.md: has conflict markers") {
		t.Errorf("it was told\n%s", told)
	}
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost", "git_conflict"}) {
		t.Errorf("verdicts %q; want worker_lost, git_conflict", v)
	}
}

// Unresolved conflicts are not delivered. A person decides about them, with a branch to see them on. The agent
// follows the answer.
func TestConflictThatStaysAsksAHuman(t *testing.T) {
	t.Parallel()
	s, key := conflicted(t, func(ctx context.Context, a *fakeWorker) int {
		if len(a.plan.AttemptFile.Conflicts) != 1 {
			t.Errorf("attempt %d received the conflicts %q", a.plan.Attempt, a.plan.AttemptFile.Conflicts)
		}
		if len(a.plan.AttemptFile.Hints) > 0 {
			return a.resolve(ctx)
		}
		return a.work(ctx)
	})
	s.until("blocked", s.labelled(key, "agent-blocked"))
	want := []string{"worker_lost", "git_conflict", "git_conflict"}
	if v := s.verdicts(key); !slices.Equal(v, want) {
		t.Errorf("verdicts %q; want %q", v, want)
	}
	s.until("a question that names the file", func() bool {
		c := s.github.Issue(key).Comments
		return strings.Contains(c[len(c)-1].Body, "conflict markers (<<<<<<<) remain in README.md")
	})
	if text := s.git("show", "retake/1-a3:README.md"); !strings.Contains(text, "<<<<<<< this-task") {
		t.Errorf("the question is about a file that reads\n%s", text)
	}
	s.github.AddComment(key, "octocat", "/agent retry keep both")
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); len(v) != len(want) {
		t.Errorf("verdicts %q after the answer; want no further one", v)
	}
}

// losesAnswer is a transport that loses the response to the first write with these words in its body.
type losesAnswer struct {
	words string
	lost  atomic.Bool
}

func (l *losesAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	hit := false
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		hit = strings.Contains(string(body), l.words) && l.lost.CompareAndSwap(false, true)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && hit {
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

// The response to the last request of a delivery is lost, although the delivery is already visible on GitHub. The
// director repeats the same delivery without another validation, even if the base branch has moved.
func TestADeliveryThatIsShownIsNotValidatedAgain(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string]string{"behind": "news.txt", "in conflict": "work-1.txt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }))
			s.transport = &losesAnswer{words: "In review"} // the request changes labels and the claim's comment
			s.config.SyncMain.MaxCommitsBehind, s.config.SyncMain.MaxBehind = 0, 24*time.Hour
			var once sync.Once
			s.at("effect failed", func() { once.Do(func() { s.advance(changed, 1) }) })
			key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
			s.start()
			s.until("it has an outcome", func() bool {
				return s.inState(key, "InReview")() || s.inState(key, "gone")() &&
					s.logs.FilterMessage("effect failed").Len() > 0
			})
			if n := s.logs.FilterMessage("effect failed").Len(); n != 1 {
				t.Errorf("%d failures; want that of the first delivery", n)
			}
			if v := s.verdicts(key); len(v) > 0 || !s.labelled(key, "agent-review")() || s.state(key) != "InReview" ||
				s.runtime.begun() != 1 {
				t.Errorf("verdicts %q, labels %q, state %s, %d attempts; want it in review after one", v, s.labels(key),
					s.state(key), s.runtime.begun())
			}
			if body := s.github.Issue(s.pull()).Body; strings.Contains(body, "Not validated") {
				t.Errorf("the pull request says\n%s", body)
			}
		})
	}
}
