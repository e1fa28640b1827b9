package page

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"retake/internal/connlimit"
)

// Limits on signing in.
const (
	sessionTime = 12 * time.Hour
	maxSessions = 100
)

// A session has two secrets. Browsers send a cookie to every port of the host, so another program on the host may see
// it. The page's script keeps the key in localStorage, which belongs to the page's scheme, host and port, and sends it
// as a header.
const (
	cookieName = "retake_session"
	// secureCookieName is the cookie's name over TLS. Browsers then refuse it from other hosts and without TLS.
	secureCookieName = "__Host-" + cookieName
	keyHeader        = "Retake-Page-Key"
)

// triesAtOnce and tryEvery limit the wrong tokens from one source. The right token is accepted regardless, because
// behind a proxy all people share one source. The length of the token makes guessing futile.
const (
	triesAtOnce = 10
	tryEvery    = 2 * time.Second
)

// sessions holds the signed-in users. A restart of the director ends all sessions.
type sessions struct {
	mu    sync.Mutex
	tries *connlimit.Tries   // wrong tokens
	known map[string]session // by the cookie's name and value
}

type session struct {
	by    string
	key   string
	until time.Time
}

func newSessions() sessions {
	return sessions{tries: connlimit.NewTries(rate.Every(tryEvery), triesAtOnce), known: map[string]session{}}
}

// who returns the name of the signed-in user, or "" if there is no session.
func (s *sessions) who(r *http.Request) string {
	_, known := s.find(r)
	return known.by
}

// find returns a session if the request has both its cookie and its key.
func (s *sessions) find(r *http.Request) (cookie string, known session) {
	key := []byte(r.Header.Get(keyHeader))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.Cookies() { // programs on other ports of the host may have set cookies with the same name
		cookie := c.Name + "=" + c.Value
		known, ok := s.known[cookie]
		if ok && time.Now().Before(known.until) && subtle.ConstantTimeCompare(key, []byte(known.key)) == 1 {
			return cookie, known
		}
	}
	return "", session{}
}

// begin starts a session. by is the user, and cookie is the name of the session's cookie. begin returns the cookie's
// value and the session's key.
func (s *sessions) begin(by, cookie string) (value, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, oldest := time.Now(), ""
	for id, known := range s.known {
		if now.After(known.until) {
			delete(s.known, id)
		} else if oldest == "" || known.until.Before(s.known[oldest].until) {
			oldest = id
		}
	}
	if len(s.known) >= maxSessions {
		delete(s.known, oldest)
	}
	value, key = rand.Text(), rand.Text()
	s.known[cookie+"="+value] = session{by, key, now.Add(sessionTime)}
	return value, key
}

func (s *sessions) end(r *http.Request) {
	cookie, _ := s.find(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, cookie)
}

// seen returns a handler that passes requests with read access to next. A browser that opens a page cannot send the
// session's key, so it gets the sign-in form. The form's script then requests the page with the key.
func (p *Page) seen(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.maySee(r):
			next(w, r)
		case r.Header.Get("Accept") == "text/event-stream":
			http.Error(w, "sign in first", http.StatusUnauthorized)
		default:
			http.Redirect(w, r, "/signin?to="+url.QueryEscape(ownPath(r.URL.RequestURI())), http.StatusSeeOther)
		}
	}
}

func (p *Page) maySee(r *http.Request) bool { return p.sessions.who(r) != "" || p.options.Open(r) }

// Local reports whether a request addresses this machine by a local name, and was not forwarded by a proxy. A foreign
// site can make another name resolve to this machine (DNS rebinding). Local does not check the client's address, so the
// listener must be on a loopback address.
func Local(r *http.Request) bool { return LocalName(r.Host) && !forwarded(r) }

// forwarded reports whether a proxy forwarded the request. The client is then on another machine and chooses the Host
// header.
func forwarded(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return true
		}
	}
	return false
}

// LocalName reports whether a Host header contains a local name of this machine. Any other name that resolves to this
// machine may belong to a foreign site.
func LocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// signedIn admits only signed-in users.
func (p *Page) signedIn(next func(w http.ResponseWriter, r *http.Request, by string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := p.sessions.who(r)
		if by == "" {
			http.Error(w, "sign in first: actions need a session", http.StatusForbidden)
			return
		}
		next(w, r, by)
	}
}

type signInPart struct {
	Wrong string
	To    string // page to open after signing in
	Key   string // key of the new session, which the page sends in keyHeader
}

// ownPath returns the path and query of to if it is one of this server's pages, and "/" otherwise.
func ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !ownPages.MatchString(to) ||
		strings.Contains(u.Path, "..") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

var ownPages = regexp.MustCompile(`^/(tasks/[^\\]*|numbers|machine|tables)?(\?[^\\]*)?$`)

func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request) {
	p.askToken(w, r, http.StatusOK, "")
}

func (p *Page) askToken(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	if token, err := p.options.Token(); err != nil || token == "" {
		wrong = "Signing in is disabled: there is no token in director.page_token_env or director.page_token_file."
	}
	p.drawSignIn(w, r, status, signInPart{Wrong: wrong})
}

func (p *Page) drawSignIn(w http.ResponseWriter, r *http.Request, status int, part signInPart) {
	part.To = ownPath(r.FormValue("to"))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = p.templates.ExecuteTemplate(w, "signin.html",
		frame{Title: "Sign in", Fleet: p.options.Fleet, Here: "signin", Part: part})
}

// signIn checks the token, and starts a session. The journal records the user's actions with the name from the form.
// The response contains the session's key for the page's script.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	token, err := p.options.Token()
	if err != nil || token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(r.PostFormValue("token"))) != 1 {
		status, wrong := http.StatusForbidden, "Wrong token."
		if !p.sessions.tries.Allow(r.RemoteAddr) {
			status, wrong = http.StatusTooManyRequests, "Wrong token. Too many attempts from this address; try again "+
				"later."
		}
		p.askToken(w, r, status, wrong)
		return
	}
	name := strings.Join(strings.Fields(r.PostFormValue("name")), " ")
	if err := p.options.CheckName(name); err != nil {
		p.askToken(w, r, http.StatusBadRequest, "Your name: "+err.Error()+".")
		return
	}
	cookie := &http.Cookie{
		Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionTime.Seconds()), Secure: overTLS(r),
	}
	if cookie.Secure {
		cookie.Name = secureCookieName
	}
	var key string
	cookie.Value, key = p.sessions.begin(name+" (page)", cookie.Name)
	http.SetCookie(w, cookie)
	p.drawSignIn(w, r, http.StatusOK, signInPart{Key: key})
}

// overTLS reports whether the browser uses TLS, according to the connection, a proxy or the browser.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" ||
		strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	p.sessions.end(r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
