package lead

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"retake/internal/bus"
	"retake/internal/director/loop"
)

// Without the lease the transport blocks all writes to GitHub.
func TestNothingIsWrittenToGitHubOutsideOfTheLease(t *testing.T) {
	var sent []string
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Method)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	c := &Candidate{}
	send := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://github.invalid/", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Transport(next).RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	if err := send(http.MethodPost); err != nil { // no other process can lead
		t.Error(err)
	}
	c.term.Store(&Term{lease: &bus.Lease{}}) // its time is over
	if err := send(http.MethodGet); err != nil {
		t.Error(err)
	}
	if err := send(http.MethodPost); !errors.Is(err, loop.ErrLeaseLost) {
		t.Errorf("a request that writes: %v", err)
	}
	if !slices.Equal(sent, []string{http.MethodPost, http.MethodGet}) {
		t.Errorf("sent: %q", sent)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
