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

// visitor is a browser in front of the director's page.
type visitor struct {
	s      *harness
	client *http.Client
}

// visited returns a visitor of a director whose page uses the token testPageToken.
func (s *harness) visited() visitor {
	s.config.Director.HTTPListen = "127.0.0.1:0"
	s.config.Director.PageTokenFile = filepath.Join(s.t.TempDir(), "token")
	must(s.t, os.WriteFile(s.config.Director.PageTokenFile, []byte(testPageToken+"\n"), 0o600))
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	return visitor{s, &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// get returns the text of a page. post returns the text of the page that a form leads to.
func (v visitor) get(path string) string { return v.send(v.client.Get(v.s.address(path))) }

func (v visitor) post(path string, form url.Values) string {
	return v.send(v.client.PostForm(v.s.address(path), form))
}

func (v visitor) send(resp *http.Response, err error) string {
	v.s.t.Helper()
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
	if text := v.post("/signin", url.Values{"name": {"alice"}, "token": {testPageToken}}); !strings.Contains(text,
		"alice (page)") {
		t.Fatalf("signing in:\n%s", text)
	}
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(v.get("/tasks/acme/widgets/1"))
	if form == nil {
		t.Fatalf("the form has no id:\n%s", v.get("/tasks/acme/widgets/1"))
	}
	for range 3 {
		s.until("the command is in the journal", func() bool { // refused while a request to GitHub is under way
			return strings.Contains(v.post("/tasks/acme/widgets/1/commands", url.Values{
				"form": {form[1]}, "command": {"retry"},
				"text": {"Format B"},
			}), "retry: recorded in the journal")
		})
	}
	if got := s.commands(); !slices.Equal(got, []string{"retry, alice (page), "}) {
		t.Errorf("in the journal: %q; want the command once", got)
	}
	if text := v.post("/signin", url.Values{"name": {"bob\u202e"}, "token": {testPageToken}}); !strings.Contains(text,
		"want a name of at most 64 letters") {
		t.Errorf("a name that no command has:\n%s", text)
	}
}
