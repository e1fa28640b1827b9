package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/github"
)

// WebhookPath is where GitHub posts what has happened.
const WebhookPath = "/webhooks/github"

// Bounds of what anybody may send to the address.
const (
	// GitHub sends no more: https://docs.github.com/webhooks/webhook-events-and-payloads
	webhookBytes      = 25 << 20
	webhooksAtOnce    = 4               // bodies in memory
	webhookPatience   = 2 * time.Second // until there is room for a body
	webhooksKnown     = 4096            // deliveries that are known when they come again
	webhookComplaints = time.Minute     // between two lines of the log about what was refused
)

// What becomes of a webhook: the names of meters.
const (
	webhookTaken    = "taken"       // a look at its repository follows
	webhookRepeated = "repeated"    // its delivery was taken before
	webhookIdle     = "idle"        // an event, or a repository, that does not matter to us
	webhookForged   = "forged"      // the signature is not its body's
	webhookTooLarge = "too_large"   // more than webhookBytes
	webhookBad      = "bad"         // not what GitHub sends
	webhookNotHere  = "not_leading" // nobody here looks at GitHub: a standby, or a director that begins
	webhookBroken   = "not_read"    // the sender went away, or was too slow
)

// webhookOutcomes lists them.
var webhookOutcomes = []string{
	webhookTaken, webhookRepeated, webhookIdle, webhookForged, webhookTooLarge, webhookBad,
	webhookNotHere, webhookBroken,
}

// Webhooks answers what GitHub posts. A webhook only says where to look: one that is lost, late, doubled or out
// of order changes when the director looks, and the poll sees what no webhook announced. Nothing of a body is
// kept or logged.
type Webhooks struct {
	secret func() (string, error) // asked for each: it can be changed while the director runs
	log    *zap.Logger
	room   chan struct{} // one for each body in memory

	mu         sync.Mutex
	counts     map[string]int
	known      map[string]bool // deliveries
	order      []string        // of them, oldest first
	complained time.Time
	look       func(github.Notice) bool // nil: nobody looks; false: nothing of ours
}

// NewWebhooks returns a handler for WebhookPath. It asks for the secret at each webhook.
func NewWebhooks(secret func() (string, error), log *zap.Logger) *Webhooks {
	return &Webhooks{
		secret: secret, log: log, room: make(chan struct{}, webhooksAtOnce), counts: map[string]int{},
		known: map[string]bool{},
	}
}

// Enabled reports whether there is a secret: without one nothing can be checked.
func (h *Webhooks) Enabled() bool { return h.secret != nil }

// ServeHTTP answers one webhook.
func (h *Webhooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, outcome, err := h.take(w, r)
	h.count(outcome, err)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(status)
}

// take returns the status to answer with, what became of the webhook, and what is wrong with it.
func (h *Webhooks) take(w http.ResponseWriter, r *http.Request) (status int, outcome string, err error) {
	if r.ContentLength > webhookBytes {
		return http.StatusRequestEntityTooLarge, webhookTooLarge, fmt.Errorf("more than %d bytes", webhookBytes)
	}
	select {
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	case <-time.After(webhookPatience):
		return http.StatusServiceUnavailable, webhookBroken, errors.New("too many at the same time")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhookBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, webhookTooLarge, fmt.Errorf("more than %d bytes", webhookBytes)
	}
	if err != nil {
		return http.StatusBadRequest, webhookBroken, errors.New("the body was cut off")
	}
	secret, err := h.secret()
	if err != nil {
		return http.StatusServiceUnavailable, webhookBroken, errors.New("the director cannot read its webhook secret")
	}
	notice, err := github.OpenWebhook(r.Header, body, secret)
	switch {
	case errors.Is(err, github.ErrSignature):
		return http.StatusUnauthorized, webhookForged, err
	case err != nil:
		return http.StatusBadRequest, webhookBad, err
	case !notice.Matters:
		return http.StatusNoContent, webhookIdle, nil
	}
	return h.pass(r.Header.Get("X-GitHub-Delivery"), notice)
}

// pass has the polls look where a notice points, unless its delivery is known.
func (h *Webhooks) pass(delivery string, n github.Notice) (status int, outcome string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.known[delivery]:
		return http.StatusOK, webhookRepeated, nil
	case h.look == nil:
		return http.StatusServiceUnavailable, webhookNotHere, errors.New("this director does not lead")
	case !h.look(n):
		return http.StatusNoContent, webhookIdle, nil
	}
	if delivery != "" {
		h.known[delivery] = true
		if h.order = append(h.order, delivery); len(h.order) > webhooksKnown {
			delete(h.known, h.order[0])
			h.order = slices.Delete(h.order, 0, 1)
		}
	}
	return http.StatusAccepted, webhookTaken, nil
}

// count notes what became of a webhook. What was refused is said in the log, but not each time.
func (h *Webhooks) count(outcome string, problem error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[outcome]++
	if problem == nil || outcome == webhookNotHere || time.Since(h.complained) < webhookComplaints {
		return
	}
	h.complained = time.Now()
	h.log.Warn("a webhook was refused", zap.Error(problem),
		zap.Int("refused_so_far", h.counts[webhookForged]+h.counts[webhookTooLarge]+h.counts[webhookBad]))
}

// Outcomes is how many webhooks there were, by what became of them.
func (h *Webhooks) Outcomes() map[string]int {
	all := map[string]int{}
	for _, outcome := range webhookOutcomes {
		all[outcome] = 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.Copy(all, h.counts)
	return all
}

// Meters adds how many webhooks there were, by what became of them.
func (h *Webhooks) Meters(to map[string]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for outcome, n := range h.counts {
		to["webhooks."+outcome] = float64(n)
	}
}

// Serve has look find out, until ctx ends, what each webhook is about: it reports whether that is anything of ours.
func (h *Webhooks) Serve(ctx context.Context, look func(github.Notice) bool) error {
	h.lookWith(look)
	<-ctx.Done()
	h.lookWith(nil)
	return nil
}

// lookWith sets who looks from now on; nil means nobody.
func (h *Webhooks) lookWith(look func(github.Notice) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look = look
}
