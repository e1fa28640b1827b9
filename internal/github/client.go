package github

import (
	"retake/internal/github/api"
	"retake/internal/github/approval"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/inbox"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
	"retake/internal/secrets/leak"
)

// Options configure a Client.
type Options struct {
	api.Options
	Fleet  string // [A-Za-z0-9._-]{1,64}; part of every marker
	Labels tracker.Labels
	// TrustedAuthors lists the author associations with trusted markers, in addition to our account.
	TrustedAuthors []string
	Secrets        []string     // secrets to mask, in addition to texts that the redactor recognizes
	Known          []leak.Value // values that must not be posted in any encoding
	HostPaths      []pages.HostPath
}

// Client gives access to GitHub with one credential. Its parts are safe for concurrent use. Their goroutines end
// together with the request for which they were started.
type Client struct {
	API        *api.Conn
	Text       *pages.Text
	Issues     *tracker.Reader
	Labels     *tracker.Writer
	Inbox      *inbox.Inbox
	Approvals  *approval.Approvals
	Claims     *claims.Claims
	Deliveries *deliver.Deliveries
	People     *ask.Asker
}

// New validates the options and connects the parts. It does not send requests.
func New(o Options) (*Client, error) {
	conn, err := api.Open(o.Options)
	if err != nil {
		return nil, err
	}
	read, write, err := tracker.New(conn, o.Fleet, o.Labels, o.TrustedAuthors)
	if err != nil {
		return nil, err
	}
	text := pages.New(conn, pages.Options{
		Fleet: o.Fleet, TaskLabel: o.Labels.Task, BlockedLabel: o.Labels.Blocked,
		Secrets: o.Secrets, Known: o.Known, HostPaths: o.HostPaths,
	})
	claims := claims.New(conn, read, write, text)
	return &Client{
		API: conn, Text: text, Issues: read, Labels: write,
		Inbox: inbox.New(conn, read), Approvals: approval.New(conn, read, write, text), Claims: claims,
		Deliveries: deliver.New(conn, read, write, text, claims), People: ask.New(conn, read, write, text),
	}, nil
}
