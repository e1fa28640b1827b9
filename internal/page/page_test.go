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
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: anyone})
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
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: anyone})
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

// TestBrowsersAreKeptInformed checks that an open browser receives each change, and an error when its director stops
// leading. Output arrives as text.
func TestBrowsersAreKeptInformed(t *testing.T) {
	source := newPlayed()
	var leads Source = source
	b := serve(t, Options{Source: func() Source { return leads }, Open: anyone})
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
	b := serve(t, Options{Source: func() Source { return source }, Open: anyone})
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
	b := serve(t, Options{Source: func() Source { return source }, Open: anyone})
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
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: anyone})
	for query, says := range map[string]bool{"did=retry": true, "did=call+0900": false, "said=call+0900": false} {
		if _, text, _ := b.send(http.MethodGet, "/tasks/acme/widgets/21?"+query, nil, nil); strings.Contains(text,
			`class="said"`) != says || strings.Contains(text, "0900") {
			t.Errorf("%s:\n%s", query, text)
		}
	}
}

// The text box appears only with commands that accept text. Otherwise it is hidden, and updates can show it.
func TestWordsOnlyWhereTheyAreRead(t *testing.T) {
	source := newPlayed()
	b := serve(t, Options{Source: func() Source { return source }, Open: anyone})
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
