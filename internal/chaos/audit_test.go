package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// judged is a world without a director. The tests call its methods, which simulate a director's actions.
type judged struct {
	*world
	t     *testing.T
	ahead *time.Duration // offset of the stand-in's clock and of the times of kills
}

func newJudged(t *testing.T) judged {
	w := &world{dir: t.TempDir(), host: nobodyWorks{}, director: &testbed.Process{}}
	ahead := new(time.Duration)
	var err error
	w.github, err = testbed.OpenGitHub(t.Context(), testbed.GitHubOptions{
		Dir: filepath.Join(w.dir, "git"), Repository: repository, Files: map[string]string{"a": ""}, Token: "token",
		Now: func() time.Time { return time.Now().Add(*ahead) },
	})
	if err = errors.Join(err, os.Mkdir(w.runs(), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.github.Shutdown() })
	return judged{w, t, ahead}
}

// nobodyWorks is a host without workers.
type nobodyWorks struct{ testbed.Host }

func (nobodyWorks) Workers(context.Context) ([]testbed.Worker, error) { return nil, nil }

func (nobodyWorks) Networks(context.Context) ([]string, error) { return nil, nil }

// deliver delivers finished work as a director does.
func (j judged) deliver(i *issue, branch, attempt string) {
	j.t.Helper()
	file := filepath.Join(j.dir, "work", number(i.key)+".txt")
	script := `git init -q . && git fetch -q "$1" main && git checkout -q FETCH_HEAD && mkdir -p work && echo "$3" > "work/$4.txt" && git add . &&
git -c user.name=a -c user.email=a@b commit -qm work && git push -q "$1" "HEAD:refs/heads/$2"`
	cmd := exec.Command("sh", "-c", script, "sh", j.github.Bare, branch, attempt, number(i.key))
	cmd.Dir = j.t.TempDir()
	cmd.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	if out, err := cmd.CombinedOutput(); err != nil {
		j.t.Fatalf("%v: %s (%s)", err, out, file)
	}
	j.github.CreatePull(repository, testbed.Bot, "Work", "", branch, "main", false)
	j.github.RemoveLabel(i.key, testbed.Bot, testbed.LabelTask)
	j.github.AddLabel(i.key, testbed.Bot, testbed.LabelReview)
}

func (j judged) ran(i *issue, attempt string, ends string) {
	j.t.Helper()
	r := runLine{Issue: i.key, Attempt: attempt, Round: "1"}
	for _, what := range []string{runBegan, runAlive, ends} {
		if err := r.write(j.runs(), what); err != nil {
			j.t.Fatal(err)
		}
	}
}

// asks asks a question as a director does: it first adds the comment, and then changes the labels.
func (j judged) asks(i *issue, question string) (id int64) {
	id = j.github.AddComment(i.key, testbed.Bot, question)
	j.github.AddLabel(i.key, testbed.Bot, testbed.LabelBlocked)
	j.github.RemoveLabel(i.key, testbed.Bot, testbed.LabelClaimed)
	return id
}

// killed advances the clock by the given time, and records a kill of the director.
func (j judged) killed(after time.Duration) {
	*j.ahead += after
	j.director.NoteKill(time.Now().Add(*j.ahead))
}

// answered simulates an answer to the question, and the next attempt, which finishes the issue.
func (j judged) answered(i *issue) {
	j.t.Helper()
	j.github.RemoveLabel(i.key, testbed.Bot, testbed.LabelBlocked)
	j.ran(i, "x-2", runFinished)
	j.deliver(i, "retake/1-a2", "x-2")
}

// works simulates one successful attempt of an issue, and its delivery.
func (j judged) works(i *issue) {
	j.t.Helper()
	j.ran(i, "x-1", runFinished)
	j.deliver(i, "retake/1-a1", "x-1")
}

// limited makes GitHub state a limit of 5 s, and sends a request after each pause.
func (j judged) limited(pauses ...time.Duration) {
	j.t.Helper()
	if err := j.github.Inject(githubtest.SecondaryLimit(http.StatusForbidden, 5*time.Second)); err != nil {
		j.t.Fatal(err)
	}
	for _, d := range append([]time.Duration{0}, pauses...) {
		*j.ahead += d
		r := httptest.NewRequest(http.MethodGet, "/api/v3/user", nil)
		r.Header.Set("Authorization", "Bearer token")
		j.github.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// Comments of a director.
const (
	claim    = `<!-- retake:claim v1 {"fleet":"f","nonce":"xxxxxxxx","run":"run_1"} -->` + "\ntext"
	question = `<!-- retake:blocked v1 {"fleet":"f","nonce":"xxxxxxxx","attempt":"x-1"} -->` + "\ntext"
)

// wrongs are simulated faults, each with the bad columns, and the columns in shown, that the audit must count.
var wrongs = []struct {
	name string
	do   func(j judged, i *issue)
	want string // bad columns and columns in shown
}{
	{
		"all is well", func(j judged, i *issue) { j.ran(i, "x-1", runFinished); j.deliver(i, "retake/1-a1", "x-1") },
		"",
	},
	{"the first attempt failed", func(j judged, i *issue) {
		j.ran(i, "x-1", runFailed)
		j.ran(i, "x-2", runFinished)
		j.deliver(i, "retake/1-a2", "x-2")
	}, ""},
	{"finished twice", func(j judged, i *issue) {
		j.ran(i, "x-1", runFinished)
		j.ran(i, "x-2", runFinished)
		j.deliver(i, "retake/1-a2", "x-2")
	}, "finished work repeated, lost"},
	{"finished twice, the worker was killed", func(j judged, i *issue) {
		j.ran(i, "x-1", runFinished)
		j.hurt("x-1")
		j.ran(i, "x-2", runFinished)
		j.deliver(i, "retake/1-a2", "x-2")
	}, ""},
	{"delivered twice", func(j judged, i *issue) {
		j.ran(i, "x-1", runFinished)
		j.deliver(i, "retake/1-a1", "x-1")
		j.deliver(i, "retake/1-a2", "x-1")
	}, "branches extra or missing, doubled"},
	{"never delivered", func(j judged, i *issue) {
		j.ran(i, "x-1", runFinished)
		j.github.RemoveLabel(i.key, testbed.Bot, testbed.LabelTask)
		j.github.AddLabel(i.key, testbed.Bot, testbed.LabelReview)
	}, "branches extra or missing, lost, stuck"},
	{"work of nobody", func(j judged, i *issue) { j.deliver(i, "retake/1-a1", "x-9") }, "branches extra or missing"},
	{"asked twice", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		j.github.AddComment(i.key, testbed.Bot, question)
		j.github.AddComment(i.key, testbed.Bot, question)
		j.ran(i, "x-2", runFinished)
		j.deliver(i, "retake/1-a2", "x-2")
	}, "comments extra, doubled"},
	{"a label stays on", func(j judged, i *issue) {
		j.ran(i, "x-1", runFinished)
		j.deliver(i, "retake/1-a1", "x-1")
		j.github.AddLabel(i.key, testbed.Bot, testbed.LabelClaimed)
	}, "labels extra or missing, stuck"},
	{"ten attempts", func(j judged, i *issue) {
		for _, n := range strings.Fields("1 2 3 4 5 6 7 8 9") {
			j.ran(i, "x-"+n, runAlive)
		}
		j.ran(i, "x-10", runFinished)
		j.deliver(i, "retake/1-a10", "x-10")
	}, "budget overruns"},
	{"closed while it was claimed", func(j judged, i *issue) {
		id := j.github.AddComment(i.key, testbed.Bot, claim)
		_ = closeIssue(j.t.Context(), j.world, i)
		j.github.DeleteComment(i.key, testbed.Bot, id)
	}, "claims abandoned"},
	{"closed, then claimed twice", func(j judged, i *issue) {
		_ = closeIssue(j.t.Context(), j.world, i)
		for range 2 {
			j.github.DeleteComment(i.key, testbed.Bot,
				j.github.AddComment(i.key, testbed.Bot, strings.ReplaceAll(claim, "run_1", "run_2")))
		}
	}, "comments extra"},
	{"closed once, two claims abandoned", func(j judged, i *issue) {
		_ = closeIssue(j.t.Context(), j.world, i)
		for _, nonce := range []string{"aaaaaaaa", "bbbbbbbb"} {
			j.github.DeleteComment(i.key, testbed.Bot,
				j.github.AddComment(i.key, testbed.Bot, strings.ReplaceAll(claim, "xxxxxxxx", nonce)))
		}
	}, "claims abandoned, comments extra"},
	{"closed, and a question deleted", func(j judged, i *issue) {
		_ = closeIssue(j.t.Context(), j.world, i)
		j.github.DeleteComment(i.key, testbed.Bot, j.github.AddComment(i.key, testbed.Bot, question))
	}, "comments extra"},
	{"a claim given up for nothing", func(j judged, i *issue) {
		j.github.DeleteComment(i.key, testbed.Bot, j.github.AddComment(i.key, testbed.Bot, claim))
		j.ran(i, "x-1", runFinished)
		j.deliver(i, "retake/1-a1", "x-1")
	}, "comments extra"},
	{"asked again after a kill and a deletion", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		id := j.asks(i, question)
		j.killed(0)
		j.github.DeleteComment(i.key, testbed.Person, id)
		j.asks(i, question)
		j.answered(i)
	}, "asked again (excused)"},
	{"asked again, killed before the labels", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		id := j.github.AddComment(i.key, testbed.Bot, question)
		j.github.DeleteComment(i.key, testbed.Person, id)
		j.killed(5 * time.Second)
		j.asks(i, question)
		j.answered(i)
	}, "asked again (excused)"},
	{"asked again after a deletion without a kill", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		j.github.DeleteComment(i.key, testbed.Person, j.asks(i, question))
		j.asks(i, question)
		j.answered(i)
	}, "doubled"},
	{"asked again, killed much later", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		j.github.AddLabel(i.key, testbed.Bot, testbed.LabelClaimed)
		j.github.DeleteComment(i.key, testbed.Person, j.asks(i, question))
		j.killed(5 * time.Second)
		j.asks(i, question)
		j.answered(i)
	}, "doubled"},
	{"asked again, killed before the first time", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		j.killed(0)
		*j.ahead += 5 * time.Second
		j.github.DeleteComment(i.key, testbed.Person, j.asks(i, question))
		j.asks(i, question)
		j.answered(i)
	}, "doubled"},
	{"asked again, killed, deleted too late", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		id := j.asks(i, question)
		j.killed(0)
		j.asks(i, question)
		j.github.DeleteComment(i.key, testbed.Person, id)
		j.answered(i)
	}, "doubled"},
	{"asked again after a kill without a deletion", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		j.asks(i, question)
		j.killed(0)
		j.asks(i, question)
		j.answered(i)
	}, "comments extra, doubled"},
	{"asked again, deleted by the director", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		id := j.asks(i, question)
		j.killed(0)
		j.github.DeleteComment(i.key, testbed.Bot, id)
		j.asks(i, question)
		j.answered(i)
	}, "comments extra, doubled"},
	{"asked three times, killed once", func(j judged, i *issue) {
		j.ran(i, "x-1", runAsked)
		j.github.AddLabel(i.key, testbed.Bot, testbed.LabelClaimed)
		id := j.asks(i, question)
		j.killed(0)
		j.github.DeleteComment(i.key, testbed.Person, id)
		*j.ahead += 5 * time.Second
		j.github.DeleteComment(i.key, testbed.Person, j.asks(i, question))
		j.asks(i, question)
		j.answered(i)
	}, "asked again (excused), doubled"},
	{
		"one call was under way when a limit was stated", func(j judged, i *issue) { j.limited(0); j.works(i) },
		"calls already in flight (excused)",
	},
	{
		"three calls after a limit was stated", func(j judged, i *issue) { j.limited(0, 0, 0); j.works(i) },
		"calls already in flight (excused), calls during a reported limit",
	},
	{
		"a call long after a limit was stated", func(j judged, i *issue) { j.limited(underWay); j.works(i) },
		"calls during a reported limit",
	},
	{"a call after the limit", func(j judged, i *issue) { j.limited(5 * time.Second); j.works(i) }, ""},
}

// shown are the columns that the test checks in addition to the bad ones.
var shown = []string{"asked again (excused)", "claims abandoned", "calls already in flight (excused)"}

func TestTheAuditorSeesWhatIsWrong(t *testing.T) {
	for _, c := range wrongs {
		t.Run(c.name, func(t *testing.T) {
			j := newJudged(t)
			i := j.open(rand.New(rand.NewPCG(1, 1)))
			i.merges = false
			i.part.First = "asks"
			c.do(j, i)
			table := newTable()
			if err := (auditor{j.world}).audit(t.Context(), table, j.unended()); err != nil {
				t.Fatal(err)
			}
			var bad []string
			for _, col := range columns {
				if (col.bad || slices.Contains(shown, col.name)) && table.count[col.name] > 0 {
					bad = append(bad, col.name)
				}
			}
			want := strings.Split(c.want, ", ")
			if c.want == "" {
				want = nil
			}
			if !sameSet(bad, want) {
				t.Errorf("bad are %q, want %q\n%s", bad, want, strings.Join(table.detail, "\n"))
			}
		})
	}
}

func sameSet(a, b []string) bool {
	in := map[string]int{}
	for _, s := range a {
		in[s]++
	}
	for _, s := range b {
		in[s]--
	}
	for _, n := range in {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestTheSeedChoosesTheFaults(t *testing.T) {
	choices := func(seed uint64) (names []string) {
		for i := range 20 {
			names = append(names, choose(rand.New(rand.NewPCG(seed, uint64(i))), faults).name)
		}
		return names
	}
	if a, b := strings.Join(choices(7), ","), strings.Join(choices(7), ","); a != b {
		t.Errorf("one seed, two sequences:\n%s\n%s", a, b)
	}
	if a, b := strings.Join(choices(7), ","), strings.Join(choices(8), ","); a == b {
		t.Error("two seeds, one sequence")
	}
	if d := between(rand.New(rand.NewPCG(1, 1)), time.Second, time.Second); d != time.Second {
		t.Errorf("between 1 s and 1 s: %v", d)
	}
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		only string
		want bool
	}{
		{"", true},
		{"disk", true},
		{"power,disk", true},
		{"power", false},
		{"!disk", false},
		{"!power", true},
		{"disk,!full", false},
	} {
		if got := wanted("disk full", c.only); got != c.want {
			t.Errorf("%q: %v, want %v", c.only, got, c.want)
		}
	}
}
