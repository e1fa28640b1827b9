package page

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"iter"
	"net/http"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/timeline"
)

// Source provides the page's data. Its methods must be safe for concurrent use.
type Source interface {
	// Fleet returns the snapshot printed by director status, without the tasks or the queue.
	Fleet(ctx context.Context) wire.Snapshot
	// Board returns at most limit tasks in each state, without their attempts and events. count is the total number of
	// tasks in each state. See timeline.Book.Board.
	Board(ctx context.Context, limit int) (rows []timeline.Task, count map[string]int, err error)
	// Task returns an issue's timeline, or false if the journal does not mention the issue.
	Task(ctx context.Context, k fsm.IssueKey, at time.Time) (timeline.Task, bool, error)
	// Numbers summarises failures, decisions and results since a time.
	Numbers(ctx context.Context, since time.Time) (timeline.Numbers, error)
	// Next waits for events after a position, and returns the newest position in the journal.
	Next(ctx context.Context, after timeline.Place) (timeline.Place, error)
	// Output iterates over the lines that an issue's attempts print.
	Output(ctx context.Context, k fsm.IssueKey, f output.Filter) iter.Seq2[output.Line, error]
	// Command executes a person's command. A repeated ID is ignored. An error's text is shown to the user.
	// After an Undecided error, the command may still be executed later. After any other error, it was not executed.
	Command(ctx context.Context, c Command) error
	// Tables returns the policy and the rules.
	Tables() []Table
}

// Command is a signed-in user's command for a task.
type Command struct {
	ID      string // id of the request, 26 letters and digits; the same if a form is submitted twice
	Issue   fsm.IssueKey
	Command fsm.Command
	Text    string // for the agent; may be empty
	By      string // the signed-in user
}

// Undecided is the error for a command that the director has not decided in time. It is safe to send the command again
// with the same ID.
type Undecided string

func (u Undecided) Error() string { return string(u) }

// Table is a table from the policy or the rules.
type Table struct {
	Name, About string
	Head        []string
	Rows        [][]string
}

// Options configure New.
type Options struct {
	Source    func() Source            // returns nil while this director is starting or does not lead
	Token     func() (string, error)   // returns "" if sign-in is disabled
	CheckName func(name string) error  // returns a message if a name is invalid
	Open      func(*http.Request) bool // reports whether a request may read without signing in
	Fleet     string
	Log       *zap.Logger
}

// The page's files. Templates are not in assetFiles, so that browsers cannot request them.
var (
	//go:embed templates
	templateFiles embed.FS
	//go:embed assets
	assetFiles embed.FS
)

// Page serves HTTP.
type Page struct {
	options   Options
	templates *template.Template
	mux       http.Handler
	sessions  sessions
	drawings  drawings
	seats     seats
}

// New returns the page. It serves all paths.
func New(o Options) (*Page, error) {
	t, err := template.New("").Funcs(functions).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	p := &Page{
		options: o, templates: t, sessions: newSessions(), drawings: drawings{all: map[fsm.IssueKey]*drawing{}},
	}
	mux := http.NewServeMux()
	if err := addAssets(mux); err != nil {
		return nil, err
	}
	mux.HandleFunc("GET /signin", p.showSignIn)
	mux.HandleFunc("POST /signin", p.signIn)
	mux.HandleFunc("POST /signout", p.signOut)
	for pattern, show := range map[string]http.HandlerFunc{
		"GET /{$}":                           p.showBoard,
		"GET /live":                          p.streamBoard,
		"GET /tasks/{owner}/{repo}/{number}": p.showTask,
		"GET /tasks/{owner}/{repo}/{number}/live":   p.streamTask,
		"GET /tasks/{owner}/{repo}/{number}/output": p.streamOutput,
		"GET /numbers": p.showNumbers,
		"GET /machine": p.showMachine,
		"GET /tables":  p.showTables,
	} {
		mux.HandleFunc(pattern, p.seen(show))
	}
	mux.HandleFunc("POST /tasks/{owner}/{repo}/{number}/commands", p.signedIn(p.command))
	p.mux = hardened(http.NewCrossOriginProtection().Handler(mux))
	return p, nil
}

// addAssets adds a route for each file, without directory listings.
func addAssets(mux *http.ServeMux) error {
	all, err := fs.Glob(assetFiles, "assets/*")
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	for _, name := range all {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, assetFiles, name)
		})
	}
	return nil
}

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// hardened sets the security headers of every response.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' "+
			"data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// errNotLeading is shown if the page has no source.
const errNotLeading = problem("this director is not the leader, or is still starting: ask the leader")

// problem is an error that the page shows without a prefix.
type problem string

func (p problem) Error() string { return string(p) }

// source returns the session's source, or an error to show.
func (p *Page) source() (Source, error) {
	if s := p.options.Source(); s != nil {
		return s, nil
	}
	return nil, errNotLeading
}

// frame is the common part of every page.
type frame struct {
	Title, Fleet, Here string
	Who                string // the signed-in user, or empty
	Problem            string
	Again              bool   // the page reloads automatically
	Said               string // result of the last action
	Refused            bool   // the last action was refused, and Said gives the reason
	Form, Text         string // the form's id, and the text in it
	Part               any
}

func (p *Page) frameOf(r *http.Request, here, title string) frame {
	return frame{
		Title: title, Fleet: p.options.Fleet, Here: here, Who: p.sessions.who(r), Form: rand.Text(),
	}
}

// show writes a page.
func (p *Page) show(w http.ResponseWriter, r *http.Request, name, title string,
	part func(context.Context, Source) (any, error),
) {
	p.showFrame(w, r, p.frameOf(r, name, title), part)
}

// showFrame loads the content of a page with part, and writes the page. If part fails, the page shows the error.
func (p *Page) showFrame(w http.ResponseWriter, r *http.Request, f frame,
	part func(context.Context, Source) (any, error),
) {
	name, status := f.Here, http.StatusOK
	if f.Refused {
		status = http.StatusConflict
	}
	s, err := p.source()
	if err == nil {
		f.Part, err = part(r.Context(), s)
	}
	if err != nil {
		f.Problem, f.Again, status = err.Error(), true, http.StatusServiceUnavailable
		if errors.Is(err, errUnknown) {
			status, f.Again = http.StatusNotFound, false
		}
		name = "problem"
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := p.templates.ExecuteTemplate(w, name+".html", f); err != nil && r.Context().Err() == nil {
		p.options.Log.Warn("could not render page", zap.String("page", name), zap.Error(err))
	}
}

// errUnknown is shown for an unknown task.
const errUnknown = problem("the journal has no record of this issue")
