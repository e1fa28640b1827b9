package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"retake/internal/fsm"
)

// Reading requires signing in, unless Options.Open admits the request.
func TestWhoMayLook(t *testing.T) {
	source := newPlayed()
	closed := serve(t, Options{Source: func() Source { return source }})
	for _, path := range everyPage {
		if status, _, header := closed.send(http.MethodGet, path, nil, nil); status != http.StatusSeeOther ||
			header.Get("Location") != "/signin?to="+url.QueryEscape(path) {
			t.Errorf("%s without a session: %d to %s", path, status, header.Get("Location"))
		}
	}
	open := serve(t, Options{
		Source: func() Source { return source }, Open: Local,
	})
	if status, _, _ := open.send(http.MethodGet, "/", nil, nil); status != http.StatusOK {
		t.Errorf("this machine: %d", status)
	}
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

var act = url.Values{"form": {"a form"}, "command": {"retry"}, "text": {"use B"}}

// TestWhoMayAct checks that a signed-in user acts under the given name until signing out.
func TestWhoMayAct(t *testing.T) {
	source := newPlayed()
	b := serve(t, Options{Source: func() Source { return source }})
	if status := b.acts(nil); status != http.StatusForbidden {
		t.Errorf("an action without a session: %d", status)
	}
	if status, text, _ := b.send(http.MethodPost, "/signin", url.Values{"token": {"wrong"}, "name": {"alice"}},
		nil); status != http.StatusForbidden || !strings.Contains(text, "Wrong token") {
		t.Errorf("a wrong token: %d %s", status, text)
	}
	if cookie := b.signIn(" alice  a. "); !strings.Contains(cookie, "HttpOnly; SameSite=Strict") {
		t.Errorf("the cookie is %s", cookie)
	}
	if status := b.acts(func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
	}); status != http.StatusForbidden {
		t.Errorf("an action from another site: %d", status)
	}
	status, _, header := b.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act, nil)
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
	if status, text, _ := b.send(http.MethodGet, "/tasks/acme/widgets/21", nil, nil); status != http.StatusOK ||
		!strings.Contains(text, `value="retry"`) {
		t.Errorf("a signed-in user has no button: %d", status)
	}
	if status, _, _ := b.send(http.MethodPost, "/signout", nil, nil); status != http.StatusSeeOther {
		t.Errorf("signing out: %d", status)
	}
	if status := b.acts(nil); status != http.StatusForbidden {
		t.Errorf("an action after signing out: %d", status)
	}
	none := serve(t, Options{Source: func() Source { return source }, Token: func() (string, error) { return "", nil }})
	if status, text, _ := none.send(http.MethodPost, "/signin", url.Values{"token": {""}, "name": {"x"}},
		nil); status != http.StatusForbidden || !strings.Contains(text, "Signing in is disabled") {
		t.Errorf("without a token: %d %s", status, text)
	}
}

// acts sends a command and returns the status.
func (b *browser) acts(change func(*http.Request)) int {
	b.Helper()
	status, _, _ := b.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act, change)
	return status
}

// TestHalfOfASessionIsUseless checks that the cookie without the key, and the key without the cookie, cannot read, act,
// or end the session. Browsers send the cookie to every port of the host.
func TestHalfOfASessionIsUseless(t *testing.T) {
	source := newPlayed()
	b := serve(t, Options{Source: func() Source { return source }})
	cookie, _, _ := strings.Cut(b.signIn("alice"), ";")
	first := b.key
	b.signIn("bob")
	for what, half := range map[string][2]string{
		"the cookie": {cookie, ""}, "the cookie with another session's key": {cookie, b.key}, "the key": {"", first},
	} {
		change := func(r *http.Request) {
			b.Jar = nil
			r.Header.Set("Cookie", half[0])
			r.Header.Set(keyHeader, half[1])
		}
		for _, path := range everyPage {
			if status, _, _ := b.send(http.MethodGet, path, nil, change); status != http.StatusSeeOther {
				t.Errorf("%s at %s: %d", what, path, status)
			}
		}
		for _, path := range []string{"/live", "/tasks/acme/widgets/21/live", "/tasks/acme/widgets/21/output"} {
			if status, _, _ := b.send(http.MethodGet, path, nil, func(r *http.Request) {
				change(r)
				r.Header.Set("Accept", "text/event-stream")
			}); status != http.StatusUnauthorized {
				t.Errorf("%s at %s: %d", what, path, status)
			}
		}
		if status := b.acts(change); status != http.StatusForbidden {
			t.Errorf("%s acts: %d", what, status)
		}
		b.send(http.MethodPost, "/signout", nil, change)
	}
	// another program on the host may have set cookies of the same name
	if status := b.acts(func(r *http.Request) {
		r.Header.Set("Cookie", cookieName+"=forged; "+cookie)
		r.Header.Set(keyHeader, first)
	}); status != http.StatusSeeOther {
		t.Errorf("cookie and key: %d", status)
	}
}

// TestTheCookieOverTLS checks that a session that began over TLS has a name that no program without TLS can set.
func TestTheCookieOverTLS(t *testing.T) {
	for header, value := range map[string]string{"X-Forwarded-Proto": "https", "Origin": "https://retake.example.com"} {
		source := newPlayed()
		b := serve(t, Options{Source: func() Source { return source }})
		b.Transport = proxied{header, value}
		cookie := b.signIn("alice")
		if !strings.HasPrefix(cookie, "__Host-retake_session=") || !strings.Contains(cookie, "; Secure") ||
			!strings.Contains(cookie, "Path=/;") {
			t.Errorf("%s: the cookie is %s", header, cookie)
		}
		if status := b.acts(nil); status != http.StatusSeeOther {
			t.Errorf("%s: an action: %d", header, status)
		}
		cookie, _, _ = strings.Cut(strings.TrimPrefix(cookie, "__Host-"), ";")
		if status := b.acts(func(r *http.Request) {
			b.Jar = nil
			r.Header.Set("Cookie", cookie)
		}); status != http.StatusForbidden {
			t.Errorf("%s: an action with the cookie under the other name: %d", header, status)
		}
	}
}

// proxied imitates a proxy with TLS. It sets a header, and sends the host name that the browser uses.
type proxied struct{ header, value string }

func (p proxied) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set(p.header, p.value)
	r.Host = "retake.example.com"
	return http.DefaultTransport.RoundTrip(r)
}

// TestAssetsAreTheOnlyFiles checks that no path leads from the assets to other embedded files or to a listing.
func TestAssetsAreTheOnlyFiles(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: anyone})
	for _, path := range []string{
		"/assets/", "/assets", "/assets/%2e%2e/templates/board.html", "/assets/..%2ftemplates/board.html",
		"/assets/%2e%2e/assets/page.css", "/assets/templates/board.html", "/templates/board.html",
	} {
		if status, text, _ := b.send(http.MethodGet, path, nil, nil); status == http.StatusOK {
			t.Errorf("%s: %.80q", path, text)
		}
	}
}

// TestSigningInLeadsBack checks that signing in leads only to a page of this director.
func TestSigningInLeadsBack(t *testing.T) {
	for to, want := range map[string]string{
		"/tasks/acme/widgets/21": "/tasks/acme/widgets/21", "/numbers?span=month": "/numbers?span=month", "/": "/",
		"/tasks/acme/widgets/21?did=retry": "/tasks/acme/widgets/21?did=retry", "": "/", "//evil.example": "/",
		"https://evil.example/tasks/": "/", `/\evil.example`: "/", "/tasks/../signout": "/", "/tasks/%2e%2e/x": "/",
		"/tasks//evil.example": "/tasks//evil.example", "javascript:alert(1)": "/", "/signin?to=/": "/",
		"///evil.example": "/", "/tasks/a\nb": "/", "/?a": "/?a",
	} {
		if got := ownPath(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}

// TestWrongTokensKeepNobodyOut sends many wrong tokens from one address. The right token must work from the same
// address, and another address must keep its tries.
func TestWrongTokensKeepNobodyOut(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: anyone})
	last := 0
	for range 2 * triesAtOnce {
		last, _, _ = b.send(http.MethodPost, "/signin", url.Values{"token": {"wrong"}}, nil)
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after %d tries: %d", 2*triesAtOnce, last)
	}
	for range 10 {
		b.signIn("alice")
	}
	elsewhere := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/signin?token=wrong", http.NoBody)
	elsewhere.RemoteAddr = "192.0.2.1:1"
	w := httptest.NewRecorder()
	b.page.ServeHTTP(w, elsewhere)
	if w.Code != http.StatusForbidden {
		t.Errorf("a wrong token from another address: %d", w.Code)
	}
}

// A name that must not be recorded is refused.
func TestSigningInTakesNoOtherNames(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: anyone})
	for _, name := range []string{"", "<b>bob</b>", "bob\u202e", strings.Repeat("b", 65)} {
		if status, text, header := b.send(http.MethodPost, "/signin", url.Values{"token": {token}, "name": {name}},
			nil); status != http.StatusBadRequest || header.Get("Set-Cookie") != "" ||
			!strings.Contains(text, "want a name") {
			t.Errorf("%q: %d\n%s", name, status, text)
		}
	}
}
