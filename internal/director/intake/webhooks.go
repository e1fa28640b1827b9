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

	"retake/internal/github/inbox"
)

// WebhookPath is the path that GitHub posts events to.
const WebhookPath = "/webhooks/github"

// Limits on requests from anyone who can reach the address.
const (
	// GitHub's maximum: https://docs.github.com/webhooks/webhook-events-and-payloads
	webhookBytes = 25 << 20
	// Most bodies are small, so small bodies have more slots. All slots together need at most 116 MiB of memory.
	webhookSmall      = 256 << 10
	webhooksSmall     = 64                     // bodies of up to webhookSmall that are read at the same time
	webhooksLarge     = 4                      // other bodies
	webhookPatience   = 2 * time.Second        // maximum wait for a slot
	webhookUnhurried  = 500 * time.Millisecond // a body that takes longer is interrupted if another one waits
	webhooksKnown     = 4096                   // number of remembered deliveries, to detect repeats
	webhookComplaints = time.Minute            // minimum time between two log lines about refused webhooks
)

// Outcomes of a webhook, which are also the names of meters.
const (
	webhookTaken    = "taken"       // the director will poll the webhook's repository
	webhookRepeated = "repeated"    // the same delivery was taken before
	webhookIdle     = "idle"        // an event or a repository that does not concern this fleet
	webhookForged   = "forged"      // the signature does not match the body
	webhookTooLarge = "too_large"   // more than webhookBytes
	webhookBad      = "bad"         // malformed
	webhookNotHere  = "not_leading" // this director is not polling, because it is standing by or starting
	webhookBroken   = "not_read"    // the body or the secret could not be read, or too many bodies were waiting
)

// webhookOutcomes lists all outcomes.
var webhookOutcomes = []string{
	webhookTaken, webhookRepeated, webhookIdle, webhookForged, webhookTooLarge, webhookBad,
	webhookNotHere, webhookBroken,
}

// Webhooks handles GitHub's webhooks. A webhook only triggers an earlier poll of its issue or pull request. A lost,
// late, repeated or misordered webhook therefore affects only the timing of a poll, and regular polls find every change
// even without webhooks. Webhooks does not store or log bodies.
type Webhooks struct {
	secret func() (string, error) // called for each webhook, because the secret may change at run time
	log    *zap.Logger
	small  *bodies
	large  *bodies

	mu         sync.Mutex
	counts     map[string]int
	known      map[string]bool // known deliveries
	order      []string        // known deliveries, oldest first
	complained time.Time
	look       func(inbox.Notice) bool // see Serve; nil while this director does not lead
}

// NewWebhooks returns a handler for WebhookPath. It reads the secret for each webhook.
func NewWebhooks(secret func() (string, error), log *zap.Logger) *Webhooks {
	return &Webhooks{
		secret: secret, log: log, small: newBodies(webhooksSmall), large: newBodies(webhooksLarge),
		counts: map[string]int{}, known: map[string]bool{},
	}
}

// Enabled reports whether a secret is configured. Without a secret, signatures cannot be verified.
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

// take handles one webhook. It returns the status of the answer, the outcome, and the error to show.
func (h *Webhooks) take(w http.ResponseWriter, r *http.Request) (status int, outcome string, err error) {
	if r.ContentLength > webhookBytes {
		return http.StatusRequestEntityTooLarge, webhookTooLarge, fmt.Errorf("more than %d bytes", webhookBytes)
	}
	if !inbox.Signed(r.Header) {
		return http.StatusUnauthorized, webhookForged, inbox.ErrSignature
	}
	slots := h.large
	if 0 <= r.ContentLength && r.ContentLength <= webhookSmall {
		slots = h.small
	}
	leave := slots.enter(r, http.NewResponseController(w))
	if leave == nil {
		return http.StatusServiceUnavailable, webhookBroken, errors.New("too many concurrent requests")
	}
	defer leave()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhookBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, webhookTooLarge, fmt.Errorf("more than %d bytes", webhookBytes)
	}
	if err != nil {
		return http.StatusBadRequest, webhookBroken, errors.New("the body was truncated or arrived too slowly")
	}
	secret, err := h.secret()
	if err != nil {
		return http.StatusServiceUnavailable, webhookBroken, errors.New("the director cannot read its webhook secret")
	}
	notice, err := inbox.OpenWebhook(r.Header, body, secret)
	switch {
	case errors.Is(err, inbox.ErrSignature):
		return http.StatusUnauthorized, webhookForged, err
	case err != nil:
		return http.StatusBadRequest, webhookBad, err
	case !notice.Matters:
		return http.StatusNoContent, webhookIdle, nil
	}
	return h.pass(r.Header.Get("X-GitHub-Delivery"), notice)
}

// pass forwards a notice to the polls, unless its delivery is a repeat.
func (h *Webhooks) pass(delivery string, n inbox.Notice) (status int, outcome string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.known[delivery]:
		return http.StatusOK, webhookRepeated, nil
	case h.look == nil:
		return http.StatusServiceUnavailable, webhookNotHere, errors.New("this director is not the leader")
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

// count records the outcome of a webhook. It logs refusals, at most once a minute.
func (h *Webhooks) count(outcome string, problem error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[outcome]++
	if problem == nil || outcome == webhookNotHere || time.Since(h.complained) < webhookComplaints {
		return
	}
	h.complained = time.Now()
	h.log.Warn("webhook refused", zap.Error(problem),
		zap.Int("refused_so_far", h.counts[webhookForged]+h.counts[webhookTooLarge]+h.counts[webhookBad]))
}

// Outcomes returns the number of webhooks by outcome.
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

// Meters adds the number of webhooks by outcome.
func (h *Webhooks) Meters(to map[string]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for outcome, n := range h.counts {
		to["webhooks."+outcome] = float64(n)
	}
}

// Serve passes webhooks to look until ctx is done. look reports whether the webhook concerns a repository or a pull
// request that the director polls.
func (h *Webhooks) Serve(ctx context.Context, look func(inbox.Notice) bool) error {
	h.lookWith(look)
	<-ctx.Done()
	h.lookWith(nil)
	return nil
}

// lookWith sets the function that receives notices. With nil, webhooks are refused.
func (h *Webhooks) lookWith(look func(inbox.Notice) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look = look
}
