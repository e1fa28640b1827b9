package page

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits on signing in.
const (
	sessionTime = 12 * time.Hour
	maxSessions = 100
	cookieName  = "retake_session"
)

// triesAtOnce and tryEvery limit how often all clients together can guess the token.
const (
	triesAtOnce = 10
	tryEvery    = 2 * time.Second
)

// sessions holds the signed-in users. They are lost with the process.
type sessions struct {
	mu    sync.Mutex
	tries *rate.Limiter
	known map[string]session
}

type session struct {
	by    string
	until time.Time
}

func newSessions() sessions {
	return sessions{tries: rate.NewLimiter(rate.Every(tryEvery), triesAtOnce), known: map[string]session{}}
}

// who identifies the signed-in user by name, or returns "".
func (s *sessions) who(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[c.Value]; time.Now().Before(known.until) {
		return known.by
	}
	return ""
}

// begin returns the value of a new session's cookie.
func (s *sessions) begin(by string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, oldest := time.Now(), ""
	for value, known := range s.known {
		if now.After(known.until) {
			delete(s.known, value)
		} else if oldest == "" || known.until.Before(s.known[oldest].until) {
			oldest = value
		}
	}
	if len(s.known) >= maxSessions {
		delete(s.known, oldest)
	}
	value := rand.Text()
	s.known[value] = session{by, now.Add(sessionTime)}
	return value
}

func (s *sessions) end(r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		s.mu.Lock()
		delete(s.known, c.Value)
		s.mu.Unlock()
	}
}

func (p *Page) canSignIn() bool {
	token, err := p.options.Token()
	return err == nil && token != ""
}

// seen admits requests that may read. They come from signed-in users, or are local and address this machine by name.
// A foreign site can make another name resolve to this machine (DNS rebinding).
func (p *Page) seen(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.maySee(r):
			next(w, r)
		case r.Header.Get("Accept") == "text/event-stream":
			http.Error(w, "sign in first", http.StatusUnauthorized)
		default:
			http.Redirect(w, r, "/signin", http.StatusSeeOther)
		}
	}
}

func (p *Page) maySee(r *http.Request) bool {
	return p.sessions.who(r) != "" || p.options.Open && LocalName(r.Host) && !forwarded(r)
}

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

// LocalName reports whether a Host header names this machine. Any other name that resolves to this machine belongs to
// a foreign site.
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
	To    string // redirect target after signing in
}

// ownPath returns the path if it is a task's path on this page, and otherwise "/".
func ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(to, "/tasks/") ||
		strings.Contains(to, "\\") || strings.Contains(u.Path, "..") {
		return "/"
	}
	return u.EscapedPath()
}

func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request) {
	p.askToken(w, r, http.StatusOK, "")
}

func (p *Page) askToken(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	if !p.canSignIn() {
		wrong = "Signing in is disabled: there is no token in director.page_token_env or director.page_token_file."
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	f := frame{
		Title: "Sign in", Fleet: p.options.Fleet, Here: "signin", Who: p.sessions.who(r),
		Part: signInPart{wrong, ownPath(r.FormValue("to"))},
	}
	_ = p.templates.ExecuteTemplate(w, "signin.html", f)
}

// signIn checks the token, and starts a session under the name that actions are recorded with.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if !p.sessions.tries.Allow() {
		p.askToken(w, r, http.StatusTooManyRequests, "Too many attempts: wait a few seconds.")
		return
	}
	token, err := p.options.Token()
	if err != nil || token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(r.PostFormValue("token"))) != 1 {
		p.askToken(w, r, http.StatusForbidden, "Wrong token.")
		return
	}
	name := strings.Join(strings.Fields(r.PostFormValue("name")), " ")
	if err := p.options.CheckName(name); err != nil {
		p.askToken(w, r, http.StatusBadRequest, "Your name: "+err.Error()+".")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: p.sessions.begin(name + " (page)"), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(sessionTime.Seconds()),
		Secure: r.Header.Get("X-Forwarded-Proto") == "https" || r.TLS != nil,
	})
	http.Redirect(w, r, ownPath(r.PostFormValue("to")), http.StatusSeeOther)
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	p.sessions.end(r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
