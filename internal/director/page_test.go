package director

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const testPageToken = "a-token-of-more-than-sixteen-characters"

// visitor is a browser that uses the director's page. It signs in as alice, unless the test has already signed in.
type visitor struct {
	s      *harness
	client *http.Client
	key    string // of the session
}

// visited returns a visitor of a director whose page uses the token testPageToken.
func (s *harness) visited() *visitor {
	s.config.Director.HTTPListen = "127.0.0.1:0"
	s.config.Director.PageTokenFile = filepath.Join(s.t.TempDir(), "token")
	must(s.t, os.WriteFile(s.config.Director.PageTokenFile, []byte(testPageToken+"\n"), 0o600))
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	return &visitor{s: s, client: &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// signIn returns the answer to signing in.
func (v *visitor) signIn(name string) string {
	v.s.t.Helper()
	text := v.send(http.MethodPost, "/signin", url.Values{"name": {name}, "token": {testPageToken}})
	if key := regexp.MustCompile(`data-key="([^"]+)"`).FindStringSubmatch(text); key != nil {
		v.key = key[1]
	}
	return text
}

// get returns the text of a page. post returns the text of the page that a form leads to.
func (v *visitor) get(path string) string { return v.signedIn().send(http.MethodGet, path, nil) }

func (v *visitor) post(path string, form url.Values) string {
	return v.signedIn().send(http.MethodPost, path, form)
}

func (v *visitor) signedIn() *visitor {
	if v.key == "" {
		v.signIn("alice")
	}
	return v
}

func (v *visitor) send(method, path string, form url.Values) string {
	v.s.t.Helper()
	r, err := http.NewRequestWithContext(v.s.t.Context(), method, v.s.address(path), strings.NewReader(form.Encode()))
	must(v.s.t, err)
	r.Header.Set("Retake-Page-Key", v.key)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := v.client.Do(r)
	must(v.s.t, err)
	text, err := io.ReadAll(resp.Body)
	must(v.s.t, err)
	must(v.s.t, resp.Body.Close())
	return string(text)
}

// A form of the page that is sent twice, and again from the browser's history, is one command in the journal.
func TestAFormSentTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asksOnce)
	v := s.visited()
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	if text := v.get("/"); !strings.Contains(text, "alice (page)") {
		t.Fatalf("signing in:\n%s", text)
	}
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(v.get("/tasks/acme/widgets/1"))
	if form == nil {
		t.Fatalf("the form has no id:\n%s", v.get("/tasks/acme/widgets/1"))
	}
	for range 3 {
		s.until("the command is in the journal", func() bool { // the director may be busy with a request to GitHub
			return strings.Contains(v.post("/tasks/acme/widgets/1/commands", url.Values{
				"form": {form[1]}, "command": {"retry"},
				"text": {"Format B"},
			}), "retry: recorded in the journal")
		})
	}
	if got := s.commands(); !slices.Equal(got, []string{"retry, alice (page), "}) {
		t.Errorf("in the journal: %q; want the command once", got)
	}
	if text := v.signIn("bob\u202e"); !strings.Contains(text, "want a name of at most 64 letters") {
		t.Errorf("a name that no command has:\n%s", text)
	}
}
