package director

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The test assembles the fake secrets here, so that the repository does not contain them.
var (
	fakeAWSKey = "AKIA" + "Q3ZXRT7YHWJ2LMNB"
	fakeToken  = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
	// a shape without a log filter
	fakeOcean   = "dop_v1_" + "5f2c9a7e1b3d8046" + "c0e7a91f4d2b6835" + "9be1f07ac4d38256" + "71a0c9e8f3b5d264"
	fakeKeyBody = strings.Repeat("MIIEpAIBAAKCAQEA7bq2Zk0c9fXvT4mN8sLwQyRj5uHd3gKe1oPiCaVxBzWnYtMl\n", 24)
	fakeKey     = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + fakeKeyBody + "-----END RSA " + "PRIVATE KEY-----\n"
)

// unsafePatch is the work of one issue's agent.
type unsafePatch struct {
	title  string
	path   string
	text   string // content, or the target of a link
	link   bool
	bytes  int64 // instead of text
	reason string
	says   []string // in the comment
}

var unsafePatches = []unsafePatch{
	{
		title: "AWS key", path: "conf/prod.env", text: "A=1\nAWS_ACCESS_KEY_ID=" + fakeAWSKey + "\n",
		reason: "policy_violation", says: []string{"conf/prod.env:2", "aws-access-token"},
	},
	{
		title: "Token", path: "run.sh", text: "curl -H 'Authorization: token " + fakeToken + "'\n",
		reason: "policy_violation", says: []string{"run.sh:1", "github-pat"},
	},
	{
		title: "Private key", path: "id_rsa", text: fakeKey, reason: "policy_violation",
		says: []string{"id_rsa:1", "private-key"},
	},
	{
		title: "DigitalOcean", path: "do.sh", text: "doctl auth init -t " + fakeOcean + "\n",
		reason: "policy_violation",
		says:   []string{"do.sh:1", "digitalocean-pat"},
	},
	{
		title: "The director's own token", path: "t", text: "x\ny token-of-the-director z\n",
		reason: "policy_violation",
		says:   []string{"t:2: Retake's own GitHub token"},
	},
	{
		title: "The same in another encoding", path: "b.bin", text: "\x00" +
			base64.RawURLEncoding.EncodeToString([]byte("x token-of-the-director")), reason: "policy_violation",
		says: []string{"b.bin:1: Retake's own GitHub token, base64"},
	},
	{
		title: "The key of its attempt", path: "k", reason: "policy_violation",
		says: []string{"k:1: Retake's own key of the attempt, base64"},
	},
	{
		title: "Its credential", path: "s", reason: "policy_violation",
		says: []string{"s:1: Retake's own bus credential, hexadecimal"},
	},
	{
		title: "The container's credentials", path: "c", text: "Xk29-fjQ\n  -7mmPz0aa", reason: "policy_violation",
		says: []string{"c:1: Retake's own MODEL_AUTH"},
	},
	{
		title: "Name", path: "notes/" + fakeToken, text: "hello\n", reason: "policy_violation",
		says: []string{"github-pat"},
	},
	{
		title: "Workflow", path: ".github/workflows/x.yml", text: "on: push\n", reason: "scope_violation",
		says: []string{".github/workflows/x.yml", "scope.deny", "ci-ok"},
	},
	{
		title: "Submodule", path: ".gitmodules",
		text:   "[submodule \"lib\"]\n\tpath = lib\n\turl = https://github.com/octocat/lib\n",
		reason: "scope_violation", says: []string{".gitmodules", "scope.deny"},
	},
	{
		title: "GitLab", path: "sub/.gitlab-ci.yml", text: "a: b\n", reason: "scope_violation",
		says: []string{"sub/.gitlab-ci.yml", "scope.deny"},
	},
	{
		title: "Other case", path: ".GitHub/workflows/x.yml", text: "on: push\n", reason: "scope_violation",
		says: []string{".GitHub/workflows/x.yml", `".github/workflows/"`},
	},
	{
		title: "Cloud build", path: "site/netlify.toml", text: "[build]\ncommand = \"env\"\n",
		reason: "scope_violation", says: []string{"site/netlify.toml", "**/netlify.toml"},
	},
	{
		title: "Directory link", path: ".circleci", text: "ci", link: true, reason: "scope_violation",
		says: []string{".circleci: forbidden"},
	},
	{
		title: "File behind a link", path: "ci/real.yml", text: "a: b\n", reason: "scope_violation",
		says: []string{"ci/real.yml", "through a symbolic link"},
	},
	{
		title: "Escape sequence", path: "x/f\x1b[31mred", text: "x", reason: "scope_violation",
		says: []string{`f\x1b`, "hidden characters"},
	},
	{
		title: "Reading direction", path: "a\u202egpj.exe", text: "x", reason: "scope_violation",
		says: []string{`a\u202egpj.exe`, "hidden characters"},
	},
	{
		title: "Link", path: "l", text: "/etc/passwd", link: true, reason: "policy_violation",
		says: []string{"l: a symbolic link that leaves the tree"},
	},
	{
		title: "Large", path: "big.bin", bytes: 100 << 20, reason: "policy_violation",
		says: []string{"big.bin", "scope.max_file_bytes"},
	},
}

func (p unsafePatch) leave(checkout string) error {
	name := filepath.Join(checkout, p.path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if p.link {
		return os.Symlink(p.text, name)
	}
	if err := os.WriteFile(name, []byte(p.text), 0o644); err != nil || p.bytes == 0 {
		return err
	}
	return os.Truncate(name, p.bytes)
}

// checkUnsafe checks the verdict and the question about an unsafe patch.
func (s *harness) checkUnsafe(key string, p unsafePatch) {
	s.t.Helper()
	if v := s.verdicts(key); !slices.Equal(v, []string{p.reason}) {
		s.t.Errorf("%s: verdicts %q, want %s", p.title, v, p.reason)
	}
	comments := s.github.Issue(key).Comments
	body := comments[len(comments)-1].Body
	for _, want := range p.says {
		if !strings.Contains(body, want) {
			s.t.Errorf("%s: the comment lacks %s:\n%s", p.title, want, body)
		}
	}
	// In the case "Name", the secret is a file's name, so the comment may redact it.
	if strings.Contains(body, "[REDACTED]") && p.title != "Name" {
		s.t.Errorf("%s: the comment is not whole:\n%s", p.title, body)
	}
	for _, c := range comments {
		if hasFakeSecret(c.Body) {
			s.t.Errorf("%s: a comment has the secret:\n%s", p.title, c.Body)
		}
	}
}

// checkNoFakeSecret searches the log and the files of the director for the secrets.
func (s *harness) checkNoFakeSecret() {
	s.t.Helper()
	for _, e := range s.logs.All() {
		for _, v := range e.ContextMap() {
			if text, ok := v.(string); ok && hasFakeSecret(text) {
				s.t.Errorf("a log has the secret: %s %s", e.Message, text)
			}
		}
	}
	must(s.t, filepath.WalkDir(s.config.Director.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() ||
			strings.HasPrefix(path, filepath.Join(s.config.Director.DataDir, "tasks")) {
			return err
		}
		data, err := os.ReadFile(path)
		if hasFakeSecret(string(data)) {
			s.t.Errorf("a secret is in %s", path)
		}
		return err
	}))
}

// TestNothingUnsafeIsPushed checks that unsafe work stays on the machine. The comment names the file and the rule. The
// secret does not appear in files, the log or comments.
func TestNothingUnsafeIsPushed(t *testing.T) {
	t.Parallel()
	left := map[string]unsafePatch{}
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		p := left[a.task]
		switch p.path {
		case "k":
			p.text = base64.StdEncoding.EncodeToString(a.plan.SignKey)
		case "s":
			p.text = hex.EncodeToString([]byte(a.plan.Bus.Seed))
		}
		if err := p.leave(a.checkout); err != nil {
			return 1
		}
		return a.succeed(ctx)
	})
	// Woodpecker executes the target of this link.
	s.imports("M 120000 inline .woodpecker/x.yml\ndata 14\n../ci/real.yml", inline("ci/real.yml", "a: a\n"))
	s.token = "token-of-the-director"
	s.github.AddUser("retake-bot", s.token)
	s.config.Containers.Env = map[string]string{"MODEL_AUTH": "Xk29-fjQ-7mmPz0aa", "HTTPS_PROXY": "http://proxy:3128"}
	s.config.Scope.Allow = map[string][]string{"ci-ok": {".github/workflows/"}}
	s.config.Director.MaxWorkers = len(unsafePatches)
	s.config.GitHub.Delivery = "pull_request"
	for _, p := range unsafePatches {
		left[s.github.CreateIssue(repo, "octocat", p.title, "", "agent-task")] = p
	}
	s.start()
	for key, p := range left {
		s.until(p.title+": blocked", s.labelled(key, "agent-blocked"))
		s.checkUnsafe(key, p)
	}
	if got := s.branches(); !slices.Equal(got, []string{"main"}) {
		t.Errorf("branches on the remote: %q", got)
	}
	s.stop()
	s.checkNoFakeSecret()
}

func hasFakeSecret(text string) bool {
	return slices.ContainsFunc([]string{fakeAWSKey, fakeToken, fakeOcean, fakeKeyBody[:60], "token-of-the-director"},
		func(secret string) bool {
			return strings.Contains(text, secret)
		})
}

// TestUnsafeWorkGoesOn checks that kept work is delivered after a person's label permits it, or after the agent has
// removed the offending part.
func TestUnsafeWorkGoesOn(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		workflow, secret := filepath.Join(a.checkout, ".github/workflows/x.yml"), filepath.Join(a.checkout, "s.env")
		mine, other := workflow, "on: push\n"
		if a.plan.Issue.Title == "Secret" {
			mine, other = secret, "K="+fakeAWSKey+"\n"
		}
		switch _, err := os.Stat(mine); {
		case a.plan.Attempt == 1:
			if os.MkdirAll(filepath.Dir(mine), 0o755) != nil || os.WriteFile(mine, []byte(other), 0o644) != nil {
				return 1
			}
		case err != nil:
			return 1 // the work was not kept
		case mine == secret:
			if os.WriteFile(mine, []byte("K=from the environment\n"), 0o644) != nil {
				return 1
			}
		}
		return a.succeed(ctx)
	})
	s.config.Scope.Allow = map[string][]string{"ci-ok": {".github/workflows/"}}
	workflow := s.github.CreateIssue(repo, "octocat", "Workflow", "", "agent-task")
	secret := s.github.CreateIssue(repo, "octocat", "Secret", "", "agent-task")
	s.start()
	s.until("both blocked", func() bool {
		return s.labelled(workflow, "agent-blocked")() && s.labelled(secret, "agent-blocked")()
	})
	s.github.AddLabel(workflow, "octocat", "ci-ok")
	s.github.AddComment(workflow, "octocat", "/agent resume")
	s.github.AddComment(secret, "octocat", "/agent retry read it from the environment")
	s.until("delivered with the label", func() bool { return slices.Contains(s.labels(workflow), "agent-review") })
	s.until("delivered without the secret", func() bool { return slices.Contains(s.labels(secret), "agent-review") })
	if got := s.branches(); !slices.Equal(got, []string{"main", "retake/1-a2", "retake/2-a2"}) {
		t.Errorf("branches on the remote: %q", got)
	}
}

// steer writes files that agents and editors obey, in the first attempt only.
func steer(a *fakeWorker) error {
	if a.plan.Attempt > 1 {
		return nil
	}
	for _, name := range []string{"docs/AGENTS.md", ".VSCode/tasks.json"} {
		if err := (unsafePatch{path: name, text: "x\n"}).leave(a.checkout); err != nil {
			return err
		}
	}
	return nil
}

// TestDraftsWhatToolsObey checks that a draft names the files that steer tools or agents. A second delivery keeps it a
// draft, although it does not change these files.
func TestDraftsWhatToolsObey(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if steer(a) != nil {
			return 1
		}
		return a.work(ctx)
	}))
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	pull := s.pull()
	s.until("in review", s.inState(key, "InReview"))
	first := s.github.Issue(pull)
	s.github.Review(pull, "octocat", "CHANGES_REQUESTED", "Call it gadget.")
	s.until("a second delivery", func() bool {
		return s.github.Issue(pull).HeadSHA != first.HeadSHA && s.inState(key, "InReview")()
	})
	for _, v := range []string{first.Body, s.github.Issue(pull).Body} {
		if !strings.Contains(v, "docs/AGENTS.md") || !strings.Contains(v, ".VSCode/tasks.json") ||
			!strings.Contains(v, "**Draft: ") || !strings.Contains(v, "VS Code") {
			t.Errorf("the pull request does not name the files:\n%s", v)
		}
	}
	if !first.Draft || !s.github.Issue(pull).Draft {
		t.Error("the pull request is not a draft")
	}
}

// TestAReadyPullRequestBecomesADraftAgain checks that one more file that steers tools makes a pull request a draft,
// although a person marked it as ready.
func TestAReadyPullRequestBecomesADraftAgain(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		path := "part" + strconv.Itoa(a.plan.Attempt) + "/AGENTS.md"
		if (unsafePatch{path: path, text: "x\n"}).leave(a.checkout) != nil {
			return 1
		}
		return a.work(ctx)
	}))
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	pull := s.pull()
	s.until("in review", s.inState(key, "InReview"))
	s.github.SetDraft(pull, "octocat", false)
	s.github.Review(pull, "octocat", "CHANGES_REQUESTED", "Call it gadget.")
	s.until("a draft with the other file", func() bool {
		now := s.github.Issue(pull)
		return now.Draft && strings.Contains(now.Body, "part2/AGENTS.md")
	})
}

// TestAsksWhatToolsObeyWithoutDrafts checks that a person decides about such files if the delivery is only a branch,
// and that a label allows them.
func TestAsksWhatToolsObeyWithoutDrafts(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if steer(a) != nil {
			return 1
		}
		return a.succeed(ctx)
	})
	s.config.GitHub.Delivery = "branch"
	s.config.Scope.Allow = map[string][]string{"tools-ok": {"**/AGENTS.md", ".VSCode/"}}
	key := s.github.CreateIssue(repo, "octocat", "Steer", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	comments := s.github.Issue(key).Comments
	if body := comments[len(comments)-1].Body; !strings.Contains(body, "AGENTS.md") ||
		!strings.Contains(body, "scope.ask") || !strings.Contains(body, "tools-ok") {
		t.Errorf("the question lacks the file, the key or the label:\n%s", body)
	}
	if got := s.branches(); !slices.Equal(got, []string{"main"}) {
		t.Errorf("branches on the remote: %q", got)
	}
	s.github.AddLabel(key, "octocat", "tools-ok")
	s.github.AddComment(key, "octocat", "/agent resume")
	s.until("delivered", func() bool { return slices.Contains(s.labels(key), "agent-review") })
}
