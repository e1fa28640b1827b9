package page

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"retake/internal/fsm"
	"retake/internal/timeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	markup  = `</script><script>alert(1)</script>"onload="x`
	hostile = markup + turning
)

var everyPage = []string{"/", "/tasks/acme/widgets/21", "/numbers", "/numbers?span=month", "/machine", "/tables"}

// TestPagesShowTextAsText checks that pages escape everything written by issues, workers and people, and load nothing
// from other hosts.
func TestPagesShowTextAsText(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: true})
	for _, path := range everyPage {
		status, text, header := b.send(http.MethodGet, path, nil, nil)
		if status != http.StatusOK || strings.Contains(text, "<script>alert") || strings.Contains(text, `"onload="x`) ||
			strings.Contains(text, "javascript:") || !strings.Contains(text, "</html>") {
			t.Errorf("%s: %d\n%s", path, status, text)
		}
		if strings.ContainsAny(text, turning) {
			t.Errorf("%s has invisible characters:\n%q", path, text)
		}
		if strings.Contains(text, "//cdn") || strings.Contains(text, `src="http`) ||
			!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s loads something from elsewhere: %v", path, header)
		}
	}
	if status, _, _ := b.send(http.MethodGet, "/tasks/acme/widgets/99", nil, nil); status != http.StatusNotFound {
		t.Errorf("an unknown task: %d", status)
	}
	for _, asset := range []string{"/assets/page.css", "/assets/page.js"} {
		if status, text, _ := b.send(http.MethodGet, asset, nil, nil); status != http.StatusOK || text == "" {
			t.Errorf("%s: %d", asset, status)
		}
	}
}

// TestBoardShowsWhatBoundsTheFleet reads the line below the board's heading.
func TestBoardShowsWhatBoundsTheFleet(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: true})
	_, text, _ := b.send(http.MethodGet, "/", nil, nil)
	for _, want := range []string{
		"31 delivered in the last hour", "work waits for GitHub&#39;s pace of writes, until <time",
		"GitHub allows 212 more comments and pull requests",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the board lacks %q\n%s", want, text)
		}
	}
}

// Requests from another machine, with a foreign site's name for this machine, or through a proxy do not see anything.
func TestWhoMayLook(t *testing.T) {
	source := newPlayed()
	closed := serve(t, Options{Source: func() Source { return source }})
	for _, path := range everyPage {
		if status, _, header := closed.send(http.MethodGet, path, nil, nil); status != http.StatusSeeOther ||
			header.Get("Location") != "/signin" {
			t.Errorf("%s without a session: %d to %s", path, status, header.Get("Location"))
		}
	}
	open := serve(t, Options{Source: func() Source { return source }, Open: true})
	if status, _, _ := open.send(http.MethodGet, "/", nil,
		func(r *http.Request) { r.Host = "evil.example" }); status != http.StatusSeeOther {
		t.Errorf("another name for this machine: %d", status)
	}
	// a client behind a proxy chooses the Host header
	for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-For", "Forwarded", "X-Real-IP"} {
		if status, _, _ := open.send(http.MethodGet, "/", nil,
			func(r *http.Request) { r.Header.Set(name, "https") }); status != http.StatusSeeOther {
			t.Errorf("through a proxy that sets %s: %d", name, status)
		}
	}
}

// TestWhoMayAct checks that a signed-in user acts under the given name until signing out.
func TestWhoMayAct(t *testing.T) {
	source := newPlayed()
	open := serve(t, Options{Source: func() Source { return source }, Open: true})
	act := url.Values{"form": {"a form"}, "command": {"retry"}, "text": {"use B"}}
	if status, _, _ := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act,
		nil); status != http.StatusForbidden {
		t.Errorf("an action without a session: %d", status)
	}
	if status, text, _ := open.send(http.MethodPost, "/signin", url.Values{"token": {"wrong"}, "name": {"alice"}},
		nil); status != http.StatusForbidden || !strings.Contains(text, "Wrong token") {
		t.Errorf("a wrong token: %d %s", status, text)
	}
	if status, _, header := open.send(http.MethodPost, "/signin", url.Values{"token": {token}, "name": {" alice  a. "}},
		nil); status != http.StatusSeeOther ||
		!strings.Contains(header.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") {
		t.Fatalf("signing in: %d %v", status, header)
	}
	if status, _, _ := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act,
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); status != http.StatusForbidden {
		t.Errorf("an action from another site: %d", status)
	}
	status, _, header := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act, nil)
	if status != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/tasks/acme/widgets/21?did=retry") {
		t.Errorf("an action: %d to %s", status, header.Get("Location"))
	}
	c := <-source.commands
	if c.ID = ""; c != (Command{
		Issue: "acme/widgets#21", Command: fsm.CommandRetry, Text: "use B",
		By: "alice a. (page)",
	}) {
		t.Errorf("carried out: %+v", c)
	}
	if status, text, _ := open.send(http.MethodGet, "/tasks/acme/widgets/21", nil, nil); status != http.StatusOK ||
		!strings.Contains(text, `value="retry"`) {
		t.Errorf("a signed-in user has no button: %d", status)
	}
	if status, _, _ := open.send(http.MethodPost, "/signout", nil, nil); status != http.StatusSeeOther {
		t.Errorf("signing out: %d", status)
	}
	if status, _, _ := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act,
		nil); status != http.StatusForbidden {
		t.Errorf("an action after signing out: %d", status)
	}
	none := serve(t, Options{Source: func() Source { return source }, Token: func() (string, error) { return "", nil }})
	if status, text, _ := none.send(http.MethodPost, "/signin", url.Values{"token": {""}, "name": {"x"}},
		nil); status != http.StatusForbidden || !strings.Contains(text, "Signing in is disabled") {
		t.Errorf("without a token: %d %s", status, text)
	}
}

// A token can be guessed only at a limited rate.
func TestTokensAreNotGuessed(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: true})
	last := 0
	for range 2 * triesAtOnce {
		last, _, _ = b.send(http.MethodPost, "/signin", url.Values{"token": {"wrong"}}, nil)
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after %d tries: %d", 2*triesAtOnce, last)
	}
}

// TestBrowsersAreKeptInformed checks that an open browser receives each change, and an error when its director stops
// leading. Output arrives as text.
func TestBrowsersAreKeptInformed(t *testing.T) {
	source := newPlayed()
	var leads Source = source
	b := serve(t, Options{Source: func() Source { return leads }, Open: true})
	follow := func(path, want string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text strings.Builder
		buffer := make([]byte, 4096)
		for !strings.Contains(text.String(), want) {
			n, err := resp.Body.Read(buffer)
			text.Write(buffer[:n])
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("%s: %v after %q", path, err, text.String())
			}
		}
		return text.String()
	}
	source.next <- struct{}{}
	if text := follow("/live", "event: board"); strings.Contains(text, "<script>alert") {
		t.Error(text)
	}
	source.next <- struct{}{}
	follow("/tasks/acme/widgets/21/live", "event: task")
	if text := follow("/tasks/acme/widgets/21/output", "event: output"); !strings.Contains(text, `"err":true`) ||
		strings.Contains(text, "\\u001b") || strings.Contains(text, "\\u2028") || strings.ContainsAny(text, turning) {
		t.Error(text)
	}
	leads = nil
	follow("/live", "event: problem")
	if status, text, _ := b.send(http.MethodGet, "/", nil, nil); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "is not the leader") {
		t.Errorf("a standby: %d %s", status, text)
	}
}

// A form that is sent twice is one request. Another button, another text or another rendering of the form is a new
// request.
func TestAFormSentTwiceIsOneRequest(t *testing.T) {
	source := newPlayed()
	source.commands = make(chan Command, 10)
	b := serve(t, Options{Source: func() Source { return source }, Open: true})
	b.signIn("alice")
	form := func() string {
		_, text, _ := b.send(http.MethodGet, "/tasks/acme/widgets/21", nil, nil)
		found := drawnForm.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("the form has no id:\n%s", text)
		}
		return found[1]
	}
	id := func(form, command, text string) string {
		b.send(http.MethodPost, "/tasks/acme/widgets/21/commands", url.Values{
			"form": {form}, "command": {command},
			"text": {text},
		}, nil)
		return (<-source.commands).ID
	}
	first := form()
	was := id(first, "retry", "use B")
	if again := id(first, "retry", "use B"); was == "" || again != was {
		t.Errorf("sent twice it has the ids %q and %q", was, again)
	}
	for what, other := range map[string]string{
		"another button": id(first, "stop", "use B"),
		"other words":    id(first, "retry", "use C"), "another drawing": id(form(), "retry", "use B"),
	} {
		if other == was {
			t.Errorf("%s has the same id %q", what, other)
		}
	}
	if status, text, _ := b.send(http.MethodPost, "/tasks/acme/widgets/21/commands", url.Values{"command": {"retry"}},
		nil); status != http.StatusConflict || !strings.Contains(text, "reload the page") {
		t.Errorf("without an id: %d %s", status, text)
	}
}

// TestWhatWasRefusedIsStillThere checks that a refusal is shown above the form, which keeps the text. The form keeps
// its id only without a decision, because a refused command may be allowed later.
func TestWhatWasRefusedIsStillThere(t *testing.T) {
	source := newPlayed()
	source.commands = make(chan Command, 2)
	b := serve(t, Options{Source: func() Source { return source }, Open: true})
	b.signIn("alice")
	for refuses, same := range map[error]bool{
		errors.New("attempt 1 is under way"): false,
		Undecided("ask again"):               true,
	} {
		source.refuses = refuses
		status, text, _ := b.send(http.MethodPost, "/tasks/acme/widgets/21/commands",
			url.Values{"form": {"f-1"}, "command": {"retry"}, "text": {"use <B>"}}, nil)
		if status != http.StatusConflict || !strings.Contains(text, refuses.Error()) ||
			!strings.Contains(text, "use &lt;B&gt;</textarea>") ||
			strings.Contains(text, `name="form" value="f-1"`) != same || drawnForm.FindString(text) == "" {
			t.Errorf("%v: %d\n%s", refuses, status, text)
		}
	}
}

// TestALinkPutsNoWordsIntoThePage checks that the page reports the executed command without text from the URL.
func TestALinkPutsNoWordsIntoThePage(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: true})
	for query, says := range map[string]bool{"did=retry": true, "did=call+0900": false, "said=call+0900": false} {
		if _, text, _ := b.send(http.MethodGet, "/tasks/acme/widgets/21?"+query, nil, nil); strings.Contains(text,
			`class="said"`) != says || strings.Contains(text, "0900") {
			t.Errorf("%s:\n%s", query, text)
		}
	}
}

// A name that must not be recorded is refused.
func TestSigningInTakesNoOtherNames(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: true})
	for _, name := range []string{"", "<b>bob</b>", "bob\u202e", strings.Repeat("b", 65)} {
		if status, text, header := b.send(http.MethodPost, "/signin", url.Values{"token": {token}, "name": {name}},
			nil); status != http.StatusBadRequest || header.Get("Set-Cookie") != "" ||
			!strings.Contains(text, "want a name") {
			t.Errorf("%q: %d\n%s", name, status, text)
		}
	}
}

// The text box appears only with commands that accept text. Otherwise it is hidden, and updates can show it.
func TestWordsOnlyWhereTheyAreRead(t *testing.T) {
	source := newPlayed()
	b := serve(t, Options{Source: func() Source { return source }, Open: true})
	b.signIn("alice")
	for command, hidden := range map[fsm.Command]bool{
		fsm.CommandRetry: false, fsm.CommandFix: false,
		fsm.CommandStop: true,
	} {
		source.rows[0].Can = []timeline.Remedy{
			{Do: "/agent " + string(command)},
			{Do: "director " + string(command) + " acme/widgets#21"},
			{Do: "director snooze acme/widgets#21 2h"},
		}
		// the update contains it
		if _, text, _ := b.send(http.MethodGet, "/tasks/acme/widgets/21", nil, nil); strings.Contains(text,
			`<div id="words" hidden>`) != hidden || strings.Count(text, `<button name="command"`) != 2 {
			t.Errorf("%s:\n%s", command, text)
		}
	}
}

// TestCodeInProse checks that text between backticks is code, a URL is a link, and the rest is text.
func TestCodeInProse(t *testing.T) {
	if got := code("`a` https://x.example"); got != "<code>a</code> https://x.example" {
		t.Errorf("in a link: %q", got)
	}
	for text, want := range map[string]string{
		"answer `/agent retry`, or <b>": "answer <code>/agent retry</code>, or &lt;b&gt;",
		"`<b>`":                         "<code>&lt;b&gt;</code>", "one ` alone": "one ` alone", "": "", "``": "``",
		"see https://x.example/a?b=1&c. Then": `see <a href="https://x.example/a?b=1&amp;c">https://x.example/a?b=1&amp;c</a>. Then`, "javascript:alert(1)": "javascript:alert(1)",
	} {
		if got := string(prose(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
