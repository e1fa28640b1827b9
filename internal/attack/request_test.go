package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// requestAttacks are hostile HTTP requests to the director's page.
var requestAttacks = []attack{
	{
		name: "a session chosen by an attacker", kind: onDoor,
		does:  "plants a session cookie in a person's browser, and one for a longer path, before the person signs in",
		holds: "signing in starts a new session, and all pages reject the planted cookie", before: "held",
		run: plantCookie,
	},
	{
		name: "a sign-in that leads elsewhere", kind: onDoor,
		does:  "asks a person to sign in with 14 spellings of another site as the next page",
		holds: "the form leads to the director's own pages", before: "held",
		run: leadElsewhere,
	},
	{
		name: "a name that is markup, a mention or a marker", kind: onDoor,
		does: "signs in as a tag, a mention, a marker of Retake, control characters, 3,000 letters, and then sends a " +
			"command",
		holds: "the name is refused, or shown as text without effect, on the page and on GitHub", before: "held",
		run: signInAsMarkup,
	},
	{
		name: "requests that proxies and servers read differently", kind: onDoor,
		does: "sends two lengths, a chunk size with a sign, nameless headers, a bare " +
			"line feed, two hosts, a request in a body",
		holds: "one answer for each connection, without the hidden request's page", before: "held",
		run: smuggle,
	},
	{
		name: "requests that are too large", kind: onDoor,
		does: "sends a header of 2 MiB, 20,000 headers, a path of 1 MiB, a form of 64 MiB, 100,000 form fields, " +
			"10,000 " +
			"cookies, and hostile stream positions",
		holds: "refused or answered within 5 s each, and a person can still read the page", before: "held",
		run: oversize,
	},
	{
		name: "commands for other tasks", kind: onDoor,
		does: "a signed-in person sends commands for other repositories, issue 0, negative and huge numbers, encoded " +
			"slashes and dots, and unknown commands",
		holds: "each is refused, and the director stays healthy", before: "held",
		run: commandElsewhere,
	},
	{
		name: "forms from another site", kind: onDoor,
		does:  "sends sign-in, sign-out and commands with another site's origin, without the page's key, and as text",
		holds: "refused; the person stays signed in", before: "held",
		run: postFromElsewhere,
	},
}

func plantCookie(b *battle) error {
	at, err := b.door()
	if err != nil {
		return err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	planted := strings.Repeat("A", 43)
	jar.SetCookies(u, []*http.Cookie{
		{Name: "retake_session", Value: planted, Path: "/"},
		{Name: "retake_session", Value: planted, Path: "/tasks"},
	})
	v := &visitor{Client: unled(jar), at: at}
	_, text, err := v.send(http.MethodPost, "/signin", url.Values{"name": {person}, "token": {pageToken}}, nil)
	found := drawnKey.FindStringSubmatch(text)
	if err != nil || found == nil {
		return errors.Join(err, errors.New("the person could not sign in"))
	}
	v.key = found[1]
	if err := v.reads(); err != nil {
		return err
	}
	thief := &visitor{Client: unled(nil), at: at, key: v.key}
	return thief.refused(pagesOf(repository+"#1"), http.Header{"Cookie": {"retake_session=" + planted}})
}

var nextPage = regexp.MustCompile(`name="to" value="([^"]*)"`)

func leadElsewhere(b *battle) error {
	at, err := b.door()
	if err != nil {
		return err
	}
	v := &visitor{Client: unled(nil), at: at}
	for _, to := range []string{
		"//evil.test", `/\evil.test`, "https://evil.test", "https:evil.test", "/tasks/..//evil.test", "///evil.test",
		"/%2f/evil.test", "/tasks/%2e%2e/%2fevil.test", "javascript:alert(1)", "/\t/evil.test", "/\n/evil.test",
		"http:///evil.test", "/tasks/a@evil.test", "?to=//evil.test",
	} {
		_, text, err := v.send(http.MethodGet, "/signin?to="+url.QueryEscape(to), nil, nil)
		found := nextPage.FindStringSubmatch(text)
		if err != nil || found == nil {
			return errors.Join(err, fmt.Errorf("%q: the form has no next page", to))
		}
		next, err := url.Parse(found[1])
		if err != nil || next.Host != "" || next.Scheme != "" || !strings.HasPrefix(next.Path, "/") ||
			strings.HasPrefix(next.Path, "//") {
			return fmt.Errorf("%q leads to %q", to, found[1])
		}
	}
	return nil
}

func signInAsMarkup(b *battle) error {
	key, err := b.claimed("Work until a hostile name stops it")
	if err != nil {
		return err
	}
	defer b.github.SetState(key, person, "closed")
	at, err := b.door()
	if err != nil {
		return err
	}
	entered := 0
	for _, name := range []string{
		"<script>alert(1)</script>", "@octocat", "fixes #1", "x<!-- retake:release v1 {} -->", "a\nb", "\x1b[2J",
		"\u202egnp",
		strings.Repeat("x", 3000), "", " ", "[x](https://evil.test)", "github-actions[bot]", bot,
	} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return err
		}
		v := &visitor{Client: unled(jar), at: at}
		_, text, err := v.send(http.MethodPost, "/signin", url.Values{"name": {name}, "token": {pageToken}}, nil)
		if err != nil {
			return err
		}
		found := drawnKey.FindStringSubmatch(text)
		if found == nil {
			continue // refused
		}
		entered++
		v.key = found[1]
		_, board, err := v.send(http.MethodGet, "/", nil, nil)
		if err != nil || strings.Contains(board, "<script>alert") {
			return fmt.Errorf("%q on the page: %w", name, err)
		}
		if _, _, err := v.send(http.MethodPost, pagesOf(key)[1]+"/commands",
			url.Values{"form": {fmt.Sprintf("%026d", entered)}, "command": {"stop"}}, nil); err != nil {
			return err
		}
	}
	time.Sleep(5 * time.Second)
	for _, c := range b.github.Issue(key).Comments {
		if c.Author == bot && effect(c.Body) != "" {
			return fmt.Errorf("%q in %q", effect(c.Body), c.Body)
		}
	}
	b.note("%d of 13 names accepted", entered)
	return nil
}

func smuggle(b *battle) error {
	at, err := b.door()
	if err != nil {
		return err
	}
	host := strings.TrimPrefix(at, "http://")
	hidden := "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + "Authorization: Bearer " + metricsToken + "\r\n\r\n"
	size := fmt.Sprint(len(hidden))
	for name, text := range map[string]string{
		"two lengths":         "Content-Length: 0\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"chunks, spelt oddly": "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + hidden,
		"a signed chunk size": "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n" + hidden,
		"no header name":      ": x\r\n\r\n" + hidden,
		"a space in a name":   "Content-Length : 0\r\n\r\n" + hidden,
		"two hosts":           "Host: evil.test\r\n\r\n" + hidden,
		"a signed length":     "Content-Length: +0\r\n\r\n" + hidden,
	} {
		answers, body, err := exchange(host, "POST /signout HTTP/1.1\r\nHost: "+host+"\r\n"+text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if answers > 1 || strings.Contains(body, "# HELP") {
			return fmt.Errorf("%s: %d answers", name, answers)
		}
	}
	return nil
}

// exchange sends raw text on one connection, and returns the number of answers and all their text.
func exchange(host, text string) (answers int, all string, err error) {
	c, err := net.DialTimeout("tcp", host, 5*time.Second)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return 0, "", err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(bufio.NewReader(io.LimitReader(c, 1<<20)))
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		err = nil // the server keeps the connection open
	}
	return strings.Count(string(data), "HTTP/1.1 "), string(data), err
}

func oversize(b *battle) error {
	reader, err := b.signIn()
	if err != nil {
		return err
	}
	v := &visitor{Client: unled(nil), at: reader.at}
	many := http.Header{}
	for n := range 20_000 {
		many.Set(fmt.Sprintf("X-%d", n), "y")
	}
	fields := url.Values{}
	for n := range 100_000 {
		fields.Set(fmt.Sprint(n), "y")
	}
	position := func(id string) http.Header { return http.Header{"Last-Event-Id": {id}} }
	for name, send := range map[string]func() (int, string, error){
		"a long header": func() (int, string, error) {
			return v.send("GET", "/", nil, http.Header{"X": {strings.Repeat("y", 2<<20)}})
		},
		"many headers": func() (int, string, error) { return v.send("GET", "/", nil, many) },
		"a long path":  func() (int, string, error) { return v.send("GET", "/"+strings.Repeat("y", 1<<20), nil, nil) },
		"a long form": func() (int, string, error) {
			return v.send("POST", "/signin", url.Values{"token": {strings.Repeat("y", 64<<20)}}, nil)
		},
		"many fields": func() (int, string, error) { return v.send("POST", "/signin", fields, nil) },
		"many cookies": func() (int, string, error) {
			return v.send("GET", "/", nil, http.Header{"Cookie": {strings.Repeat("retake_session=y; ", 10_000)}})
		},
		"a huge position": func() (int, string, error) {
			return reader.send("GET", "/live", nil,
				position("99999999999999999999"))
		},
		"a hostile position": func() (int, string, error) {
			return reader.send("GET", pagesOf(repository + "#1")[7], nil, position("../../x:"+strings.Repeat("9",
				1000)))
		},
	} {
		began := time.Now()
		status, _, err := send()
		if took := time.Since(began); took > 5*time.Second {
			return fmt.Errorf("%s: answered after %v", name, took)
		}
		b.note("%s: %d", name, status)
		_ = err // the server may close the connection before it has read the request
		if err := reader.reads(); err != nil {
			return fmt.Errorf("after %s: %w", name, err)
		}
	}
	return nil
}

func commandElsewhere(b *battle) error {
	v, err := b.signIn()
	if err != nil {
		return err
	}
	for i, path := range []string{
		"/tasks/acme/elsewhere/1", "/tasks/acme/widgets/0", "/tasks/acme/widgets/-1",
		"/tasks/acme/widgets/99999999999999999999",
		"/tasks/acme/widgets/1e3", "/tasks/acme%2Fwidgets/x/1", "/tasks/%2e%2e/widgets/1", "/tasks/acme/wid%00gets/1",
		"/tasks/acme/widgets/01", "/tasks/acme/widgets/424242",
	} {
		for _, command := range []string{"stop", "retry", "rm -rf /", "", "STOP"} {
			status, _, err := v.send(http.MethodPost, path+"/commands",
				url.Values{"form": {fmt.Sprintf("%025dA", i)}, "command": {command}, "text": {"\x1b[2J\u202e<!-- -->"}},
				nil)
			if err != nil {
				return err
			}
			if status < 400 {
				return fmt.Errorf("%s %q: %d", path, command, status)
			}
		}
	}
	return v.reads()
}

func postFromElsewhere(b *battle) error {
	key, err := b.claimed("Work despite another site")
	if err != nil {
		return err
	}
	defer b.github.SetState(key, person, "closed")
	v, err := b.signIn()
	if err != nil {
		return err
	}
	command := url.Values{"form": {strings.Repeat("C", 26)}, "command": {"stop"}}
	withKey := v.key
	for _, c := range []struct {
		path   string
		form   url.Values
		header http.Header
		key    string
	}{
		{pagesOf(key)[1] + "/commands", command, http.Header{"Origin": {"https://evil.test"}}, withKey},
		{pagesOf(key)[1] + "/commands", command, http.Header{"Origin": {"null"}}, withKey},
		{pagesOf(key)[1] + "/commands", command, http.Header{"Sec-Fetch-Site": {"cross-site"}}, withKey},
		{pagesOf(key)[1] + "/commands", command, http.Header{"Sec-Fetch-Site": {"same-site"}}, withKey},
		{pagesOf(key)[1] + "/commands", command, nil, ""},
		{pagesOf(key)[1] + "/commands", command, nil, strings.Repeat("A", len(withKey))},
		{"/signout", url.Values{}, http.Header{"Origin": {"https://evil.test"}}, withKey},
		{"/signout", url.Values{}, http.Header{"Sec-Fetch-Site": {"cross-site"}}, ""},
	} {
		v.key = c.key
		status, _, err := v.send(http.MethodPost, c.path, c.form, c.header)
		if err != nil || status != http.StatusForbidden {
			return fmt.Errorf("%s %v: %d %w", c.path, c.header, status, err)
		}
	}
	v.key = withKey
	return v.reads()
}
