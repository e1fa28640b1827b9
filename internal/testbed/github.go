package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"retake/internal/github/githubtest"
)

// Bot is the director's login on the GitHub stand-in. Person owns the issues, and acts on the web pages.
const (
	Bot    = "retake-bot"
	Person = "octocat"
)

// The director's labels, as configured by default.
const (
	LabelTask    = "agent-task"
	LabelClaimed = "agent-claimed"
	LabelBlocked = "agent-blocked"
	LabelReview  = "agent-review"
)

// Labels lists the director's labels.
var Labels = []string{LabelTask, LabelClaimed, LabelBlocked, LabelReview}

// OurLabels returns the director's labels on an issue.
func OurLabels(labels []string) []string {
	return slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return !slices.Contains(Labels, l) })
}

// GitHubOptions configure a GitHub stand-in.
type GitHubOptions struct {
	Dir        string            // holds the bare repositories
	Repository string            // owner/name
	Files      map[string]string // initial content
	Token      string            // Bot's token; Person's token has the login appended
	RateLimit  int               // requests per hour, or 0 for GitHub's limit
	Front      func(http.Handler) http.Handler
	Now        func() time.Time // time.Now if nil
}

// GitHub is a GitHub stand-in, served on loopback.
type GitHub struct {
	*githubtest.Server
	URL  string // base URL of the pages
	Bare string // path of the bare repository

	repository string
	web        *http.Server
	served     chan struct{} // closed when web has ended
}

// OpenGitHub starts a GitHub stand-in with one repository.
func OpenGitHub(ctx context.Context, o GitHubOptions) (*GitHub, error) {
	seed, err := os.MkdirTemp("", "seed-")
	if err != nil {
		return nil, fmt.Errorf("testbed: repository: %w", err)
	}
	defer func() { _ = os.RemoveAll(seed) }()
	if err := WriteFiles(seed, o.Files); err != nil {
		return nil, err
	}
	s := githubtest.New(githubtest.Options{DataDir: o.Dir, Person: Person, RateLimit: o.RateLimit, Now: o.Now})
	s.AddUser(Bot, o.Token)
	s.AddUser(Person, o.Token+Person)
	if err := s.AddRepo(o.Repository, seed, map[string]string{Bot: "write", Person: "admin"}); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("testbed: start the fake GitHub: %w", err)
	}
	handler := http.Handler(s)
	if o.Front != nil {
		handler = o.Front(s)
	}
	g := &GitHub{
		Server: s, URL: "http://" + listener.Addr().String(), Bare: filepath.Join(o.Dir, o.Repository+".git"),
		repository: o.Repository, served: make(chan struct{}),
		web: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() {
		defer close(g.served)
		_ = g.web.Serve(listener) // until Shutdown
	}()
	return g, nil
}

// API returns the base URL of the API, for github.api_url.
func (g *GitHub) API() string { return g.URL + githubtest.APIPath }

// Shutdown stops the server.
func (g *GitHub) Shutdown() error {
	err := g.web.Close()
	<-g.served
	return err
}

// WriteFiles writes files below a directory.
func WriteFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if err != nil {
			return fmt.Errorf("testbed: %w", err)
		}
	}
	return nil
}

// branchOfIssue matches the names of branches that contain work on an issue.
var branchOfIssue = regexp.MustCompile(`^retake/(\d+)-a\d+(-[a-z0-9]+)?$`)

// IssueOfBranch returns the number of the issue that a branch belongs to, or "" for other branches.
func IssueOfBranch(branch string) string {
	if m := branchOfIssue.FindStringSubmatch(branch); m != nil {
		return m[1]
	}
	return ""
}

// Pulls returns the pull requests for an issue.
func Pulls(all []githubtest.Issue, issue string) (found []githubtest.Issue) {
	for _, i := range all {
		if n := IssueOfBranch(i.Head); n != "" && n == Number(issue) {
			found = append(found, i)
		}
	}
	return found
}

// Number returns the number in an issue's key.
func Number(key string) string {
	_, n, _ := strings.Cut(key, "#")
	return n
}

// runOf matches the director's run in a marker. Tests ignore the run, so that the same comment from two runs compares
// equal.
var runOf = regexp.MustCompile(`"run":"[^"]*",?`)

// Marker returns a comment's first line without the director's run.
func Marker(c githubtest.Comment) string {
	marker, _, _ := strings.Cut(c.Body, "\n")
	return runOf.ReplaceAllString(marker, "")
}

// Markers at the beginning of the director's comments.
const (
	MarkClaim    = "<!-- retake:claim "
	MarkBlocked  = "<!-- retake:blocked "
	MarkReminder = "<!-- retake:reminder "
)
