package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"retake/internal/testbed"
)

// isPush reports whether a request belongs to a push.
func isPush(r *http.Request) bool {
	return isGit(r) && strings.Contains(r.URL.Path+"?"+r.URL.RawQuery, "git-receive-pack")
}

// page answers with a web page, as a proxy or a sign-in page in front of GitHub does.
func page(_ *proxy, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte("<!doctype html><title>Sign in</title><p>Please sign in to continue."))
}

// stall carries out the request, and delivers the answer after a delay.
func stall(p *proxy, w http.ResponseWriter, r *http.Request) {
	out := p.answer(r)
	select {
	case <-time.After(5 * time.Second):
	case <-r.Context().Done():
		return
	}
	for k, v := range out.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(out.Code)
	_, _ = w.Write(out.Body.Bytes())
}

// failPushes makes every push fail for a while. The director retries with increasing delays.
func failPushes(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	before := w.proxy.hits()
	w.proxy.set(&weather{share: 1, does: serverError(http.StatusInternalServerError), also: isPush}, r.Uint64())
	err := testbed.Pause(ctx, between(r, 10*time.Second, 25*time.Second))
	w.proxy.set(nil, 0)
	return fmt.Sprintf("%d requests", w.proxy.hits()-before), err
}
