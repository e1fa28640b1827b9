package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"retake/internal/github/gate"
)

// Mutation is one GraphQL mutation.
type Mutation struct {
	Name  string // name of the result; only letters, unique among the mutations of one Change
	Call  string // the mutation, such as "addComment"
	Input map[string]any
	Want  string // fields of the result, in braces
}

// Changed is GitHub's answer to the mutations of one Change.
type Changed struct {
	Data   map[string]json.RawMessage // by Mutation.Name, null for a failed mutation; empty if GitHub refused all
	Errors []Complaint
}

// Complaint is an error in a GraphQL answer. The first element of Path, if any, is the alias of the failed mutation.
type Complaint struct {
	Type, Message string
	Path          []any
}

// part holds the mutations of one Change.
//
// Each caller of Change waits at the gate like any other request. When a part gets its turn, the gate adds other
// waiting parts, most urgent first. A goroutine sends them all in one request, which counts as one write, and ends the
// turn:
//
//	Change ─▶ gate.Enter ─┬─ first part ──▶ go sendParts ──▶ one request ──▶ Leave
//	                      └─ other parts                        │
//	Change ◀──────────────── part.done ◀────────────────────────┘
//
// A caller waits until it gets the result or its context ends. If a part is cancelled while it waits at the gate, it is
// not sent. If it is cancelled later, GitHub may or may not carry it out. The request is cancelled only once all its
// parts have been, so cancelling one part does not make the results of the others uncertain. The goroutine ends with
// the request, after at most exchangeTimeout.
//
// GitHub carries out the mutations in order, and continues after a failed mutation. Each part gets only its own
// results. An error that affects the whole request goes to all parts. After such an error, callers read their issues
// again and repeat the missing changes.
type part struct {
	ctx       context.Context //nolint:containedctx // context of the waiting caller
	mutations []Mutation
	done      chan changeResult // buffered, so that sendParts does not wait for a caller that has left
}

type changeResult struct {
	Changed
	err error
}

// Change carries out mutations in order, possibly in one request with other callers' mutations. An error means that the
// result is unknown, or that GitHub refused the request.
func (c *Conn) Change(ctx context.Context, l gate.Lane, mutations []Mutation) (Changed, error) {
	if !c.opts.Writes {
		return Changed{}, ErrWritesDisabled
	}
	p := &part{ctx, mutations, make(chan changeResult, 1)}
	text, _ := document([]*part{p})
	r := &gate.Request{Lane: l, Write: true, GraphQL: true, Part: p}
	r.Changes, r.Content = gate.Mutations([]byte(text))
	if err := c.Gate.Enter(ctx, r); err != nil {
		return Changed{}, notAdmitted(err)
	}
	if r.Parts != nil {
		go c.sendParts(l, r)
	}
	select {
	case res := <-p.done:
		return res.Changed, res.err
	case <-ctx.Done():
		return Changed{}, Transient("no response", context.Cause(ctx))
	}
}

// sendParts sends the parts of a request that the gate has admitted, and gives each part its result.
func (c *Conn) sendParts(l gate.Lane, r *gate.Request) {
	var parts []*part
	for _, p := range r.Parts {
		parts = append(parts, p.(*part))
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parts[0].ctx))
	defer cancel(nil)
	var waiting atomic.Int64
	waiting.Store(int64(len(parts)))
	for _, p := range parts {
		defer context.AfterFunc(p.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel(context.Cause(p.ctx))
			}
		})()
	}
	text, input := document(parts)
	t := &turn{r}
	var answer Changed
	_, err := c.Do(context.WithValue(ctx, turnKey{}, t), l, http.MethodPost, c.graphql,
		map[string]any{"query": text, "variables": input}, &answer)
	if unused := t.take(); unused != nil {
		c.Gate.Leave(unused, time.Now(), gate.Result{Unsent: true})
	}
	for i, p := range parts {
		p.done <- changeResult{answer.of(i, p.mutations), err}
	}
}

// alias is the name of a mutation in the request, for its variable and its result.
func alias(part int, m Mutation) string { return fmt.Sprintf("p%d%s", part, m.Name) }

// document returns the text and the variables of a GraphQL request with the mutations of all parts.
func document(parts []*part) (text string, input map[string]any) {
	var declared, fields []string
	input = map[string]any{}
	for i, p := range parts {
		for _, m := range p.mutations {
			name := alias(i, m)
			input[name] = m.Input
			declared = append(declared, fmt.Sprintf("$%s: %s%sInput!", name, strings.ToUpper(m.Call[:1]), m.Call[1:]))
			fields = append(fields, fmt.Sprintf("%s: %s(input: $%s) %s", name, m.Call, name, m.Want))
		}
	}
	return "mutation(" + strings.Join(declared, ", ") + ") { " + strings.Join(fields, " ") + " }", input
}

// of returns the results and errors of one part. An error without a path belongs to every part.
func (a Changed) of(part int, mutations []Mutation) Changed {
	own, names := Changed{Data: map[string]json.RawMessage{}}, map[any]bool{}
	for _, m := range mutations {
		name := alias(part, m)
		names[name] = true
		if result, there := a.Data[name]; there {
			own.Data[m.Name] = result
		}
	}
	for _, e := range a.Errors {
		if len(e.Path) == 0 || names[e.Path[0]] {
			own.Errors = append(own.Errors, e)
		}
	}
	return own
}

// turnKey is the context key for the *turn of a request that the gate has admitted.
type turnKey struct{}

// turn hands the transport a request that the gate has already admitted. The transport takes it before the first
// exchange, and enters the gate again after a redirect.
type turn struct{ *gate.Request }

func (t *turn) take() *gate.Request {
	if t == nil {
		return nil
	}
	r := t.Request
	t.Request = nil
	return r
}
