package demo

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func TestModelResetsAndThenAnswers(t *testing.T) {
	m, err := openModel(t.Context(), "127.0.0.1", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.url, strings.NewReader("a prompt"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	for range 2 {
		if text, err := ask(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %q, %v, want %v", text, err, syscall.ECONNRESET)
		}
	}
	if text, err := ask(); err != nil || text == "" {
		t.Errorf("got %q, %v, want an answer", text, err)
	}
	if cut, answered := m.counts(); cut != 2 || answered != 1 {
		t.Errorf("counts = %d, %d, want 2 and 1", cut, answered)
	}
}
