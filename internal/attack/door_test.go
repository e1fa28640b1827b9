package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/testbed"
)

// onDoor attacks come from the director's machine, or through a proxy on it. Their targets are the page, the metrics
// and the director's files.
const onDoor kind = "door"

const (
	pageToken    = "the-page-token-of-the-attacks"
	metricsToken = "the-metrics-token-of-the-attacks"
)

// doorAttacks check that only holders of a token read or command, and that only the director's user opens its files.
var doorAttacks = []attack{
	{
		name: "the session's cookie at another port", kind: onDoor,
		does: "a person who has signed in opens another port of this host, where an agent could listen; the cookie " +
			"that arrives there reads all pages and streams, and sends a command",
		holds:  "the director refuses the cookie alone; the person continues",
		before: "succeeded: board, streams, and the command stop",
		run:    stealCookie,
	},
	{
		name: "a plain proxy and local processes", kind: onDoor,
		does: "reads all pages, streams and metrics as a local process, by local names, with headers of various " +
			"proxies, wrong bearer tokens, and through a proxy that only sets the upstream's name",
		holds:  "without a token only probes answer, with one word",
		before: "succeeded: page and metrics, although RETAKE_PAGE_TOKEN is set",
		run:    readUnsigned,
	},
	{
		name: "the page's templates", kind: onDoor,
		does:  "asks for templates and lists through ../ in plain and encoded spellings below /assets/",
		holds: "only style sheet and script are served", before: "succeeded: the source of a template, a listing",
		run: readTemplates,
	},
	{
		name: "steady wrong tokens", kind: onDoor,
		does:  "sends wrong tokens to sign-in and metrics without a pause, while a person signs in",
		holds: "the right token is accepted each time", before: "succeeded: 0 of 10 right tokens",
		run: guessTokens,
	},
	{
		name: "streams of one reader", kind: onDoor,
		does:  "a person opens 205 streams of the page; another signs in, reads and follows a task",
		holds: "the other person gets pages and streams at once", before: "succeeded: 503",
		run: fillStreams,
	},
	{
		name: "files of a director with umask 000", kind: onDoor,
		does: "another user of this machine reads and writes all files below data_dir, adds more, and connects to " +
			"the operator's socket",
		holds: "everything refuses it", before: "succeeded: nobody " +
			"drained the director",
		run: openFiles,
	},
}

// TestDoor runs the attacks that other users of the director's machine can try. A successful attack fails the test.
func TestDoor(t *testing.T) {
	if !*all {
		t.Skip("make attacks runs the attacks on page, metrics and files")
	}
	var w *world
	for _, a := range slices.Concat(doorAttacks, requestAttacks) {
		if !chosen(a) {
			continue
		}
		if w == nil {
			w = newDoor(t)
		}
		judge(t, a, func(a attack) ([]string, error) {
			b := &battle{world: w}
			err := a.run(b)
			return b.seen, errors.Join(err, w.well())
		})
	}
}

// newDoor starts a director with a page under umask 000, with plain processes as workers.
func newDoor(t *testing.T) *world {
	program, err := build(testbed.DirectorProgram)
	must(t, err)
	worker, err := build(testbed.WorkerProgram)
	must(t, err)
	walls := "process_same_user = true"
	if os.Getuid() == 0 {
		walls = fmt.Sprintf("user = \"%d:%d\"", agentUID, agentUID)
	}
	return newWorld(t, worldOptions{
		program: program, worker: worker, under: []string{"sh", "-c", `umask 000; exec "$@"`, "sh"},
		director: "http_listen = \"127.0.0.1:0\"",
		environ:  []string{"RETAKE_PAGE_TOKEN=" + pageToken, "RETAKE_METRICS_TOKEN=" + metricsToken},
		sections: "[containers]\nruntime = \"process\"\n" + walls +
			"\n[[stage]]\nname = \"CODE\"\nrun = [\"sleep\", \"600\"]\ntimeout_seconds = 600\n",
	})
}

var listening = regexp.MustCompile(`"?http://(127\.0\.0\.1:\d+)`)

// door returns the URL of the director's page.
func (w *world) door() (string, error) {
	found := listening.FindStringSubmatch(w.linesOf("listening"))
	if found == nil {
		return "", errors.New("the director listens nowhere")
	}
	return "http://" + found[1], nil
}

// visitor is a browser. Its jar follows RFC 6265, which ignores ports.
type visitor struct {
	*http.Client
	at, key string
}

var drawnKey = regexp.MustCompile(`data-key="([^"]+)"`)

// signIn returns a browser in which a person has signed in to the page.
func (w *world) signIn() (*visitor, error) {
	at, err := w.door()
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	v := &visitor{Client: unled(jar), at: at}
	_, text, err := v.send(http.MethodPost, "/signin", url.Values{"name": {person}, "token": {pageToken}}, nil)
	if found := drawnKey.FindStringSubmatch(text); found != nil {
		v.key = found[1]
	}
	return v, errors.Join(err, v.reads())
}

// unled returns a client that follows no redirects.
func unled(jar http.CookieJar) *http.Client {
	return &http.Client{
		Jar: jar, Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reads checks that the page shows the board to the signed-in person.
func (v *visitor) reads() error {
	status, text, err := v.send(http.MethodGet, "/", nil, nil)
	if err == nil && (status != http.StatusOK || !strings.Contains(text, `data-live="/live"`)) {
		err = fmt.Errorf("a signed-in person gets %d for the board", status)
	}
	return err
}

// send sends a request, and returns the status and the first 64 KiB of the body. It does not read an event stream,
// because a stream does not end.
func (v *visitor) send(method, path string, form url.Values, header http.Header) (int, string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.at+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	if v.key != "" {
		r.Header.Set("Retake-Page-Key", v.key)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	resp, err := v.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text := make([]byte, 64<<10)
	n := 0
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		n, err = io.ReadFull(resp.Body, text)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return resp.StatusCode, string(text[:n]), err
}

// pagesOf lists all pages and streams about an issue and the fleet.
func pagesOf(key string) []string {
	task := "/tasks/" + strings.Replace(key, "#", "/", 1)
	return []string{"/", task, "/numbers", "/machine", "/tables", "/live", task + "/live", task + "/output"}
}

// refused requests the paths. It returns an error with the paths that were answered with status 200.
func (v *visitor) refused(paths []string, header http.Header) error {
	var through []string
	for _, path := range paths {
		status, _, err := v.send(http.MethodGet, path, nil, header)
		if err != nil {
			return err
		}
		if status == http.StatusOK {
			through = append(through, path)
		}
	}
	if through != nil {
		return fmt.Errorf("%s %v: 200 for %s", v.at, header, strings.Join(through, ", "))
	}
	return nil
}

// claimed opens an issue and waits until it has a task.
func (b *battle) claimed(title string) (key string, err error) {
	key = b.issue(title)
	return key, until("the issue is claimed", longest, func() bool { return b.has(key, "agent-claimed") })
}

func stealCookie(b *battle) error {
	key, err := b.claimed("Work for long")
	if err != nil {
		return err
	}
	defer b.github.SetState(key, person, "closed")
	v, err := b.signIn()
	if err != nil {
		return err
	}
	arrived := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived = r.Header.Get("Cookie")
	}))
	defer other.Close()
	resp, err := v.Get(other.URL) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if !strings.Contains(arrived, "retake_session=") {
		return fmt.Errorf("the attack was not made: %q arrived at the other port", arrived)
	}
	thief := &visitor{Client: unled(nil), at: v.at}
	stolen := http.Header{"Cookie": {arrived}}
	err = thief.refused(pagesOf(key), stolen)
	status, _, sent := thief.send(http.MethodPost, pagesOf(key)[1]+"/commands",
		url.Values{"form": {"stolen"}, "command": {"stop"}}, stolen)
	if sent == nil && status != http.StatusForbidden {
		sent = fmt.Errorf("the command stop: %d", status)
	}
	b.note("the cookie arrived at another port")
	return errors.Join(err, sent, v.reads())
}

func readUnsigned(b *battle) error {
	at, err := b.door()
	if err != nil {
		return err
	}
	upstream, err := url.Parse(at)
	if err != nil {
		return err
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }, // like nginx's proxy_pass: no more headers
	})
	defer proxy.Close()
	paths, n := append(pagesOf(repository+"#1"), "/metrics"), 0
	for _, from := range []string{at, proxy.URL} {
		v := &visitor{Client: unled(nil), at: from}
		for _, header := range []http.Header{
			nil,
			{"Host": {"localhost"}},
			{"Host": {"127.0.0.1"}},
			{"Cf-Connecting-Ip": {"1.2.3.4"}},
			{"X-Forwarded-For": {"127.0.0.1"}},
			{"Authorization": {"Bearer "}},
			{"Authorization": {"Bearer " + pageToken}},
			{"Authorization": {"Basic " + metricsToken}},
			{"Cookie": {"retake_session="}, "Retake-Page-Key": {""}},
		} {
			n += len(paths)
			err = errors.Join(err, v.refused(paths, header))
		}
		for _, path := range []string{"/livez", "/healthz", "/readyz"} {
			_, text, sent := v.send(http.MethodGet, path, nil, nil)
			if sent != nil || text != "yes\n" && text != "no\n" {
				err = errors.Join(err, sent, fmt.Errorf("%s answers %q", path, text))
			}
		}
		if status, _, sent := v.send(http.MethodGet, "/metrics", nil,
			http.Header{"Authorization": {"Bearer " + metricsToken}}); sent != nil || status != http.StatusOK {
			err = errors.Join(err, sent, fmt.Errorf("/metrics with its token: %d", status))
		}
	}
	b.note("%d requests", n)
	return err
}

func readTemplates(b *battle) error {
	at, err := b.door()
	if err != nil {
		return err
	}
	v := &visitor{Client: unled(nil), at: at}
	for _, path := range []string{"/assets/page.css", "/assets/page.js"} {
		if status, _, err := v.send(http.MethodGet, path, nil, nil); err != nil || status != http.StatusOK {
			return errors.Join(err, fmt.Errorf("%s: %d", path, status))
		}
	}
	var paths []string
	for _, up := range []string{
		"..", "%2e%2e", "%2E.", ".%2e", "x/..", "x/%2e%2e", "%2e%2e/%2e%2e", "..%2f", "%2e%2e%2f",
	} {
		for _, file := range []string{"templates/board.html", "templates/", "assets/", "", "page.go"} {
			paths = append(paths, "/assets/"+strings.TrimSuffix(up, "/")+"/"+file)
		}
	}
	b.note("%d spellings", len(paths))
	return v.refused(append(paths, "/assets/", "/assets", "/templates/board.html"), nil)
}

// Most systems reserve this user for programs without rights.
const nobody = "65534"

func openFiles(b *battle) error {
	if os.Getuid() != 0 {
		return errors.New("the attack was not made: only root can become another user")
	}
	key, err := b.claimed("Files of an attempt")
	if err == nil {
		err = until("an attempt has a checkout", longest, func() bool {
			found, _ := filepath.Glob(filepath.Join(b.data(), "tasks", "*", "checkout", "README.md"))
			return len(found) > 0
		})
	}
	if err != nil {
		return err
	}
	defer b.github.SetState(key, person, "closed")
	agent, err := agentBinary()
	if err != nil {
		return err
	}
	names := []string{"-uid", nobody, "files"}
	if err := filepath.WalkDir(b.data(), func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the director removed the file during the walk
		}
		return err
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, agent, names...)
	cmd.Dir, cmd.Env = "/", []string{"HOME=/none/none"}
	said, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(said)) {
		if strings.HasPrefix(line, "through:") {
			err = errors.Join(err, errors.New(strings.TrimSpace(line)))
		}
	}
	b.note("%d files and folders tried", len(names)-3)
	if len(names) < 50 {
		err = errors.Join(err, errors.New("the attack was not made: the director has too few files"))
	}
	return err
}
