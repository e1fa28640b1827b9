package egress

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const realKey = "sk-ant-the-real-one"

// keyed is a proxy that puts realKey into the requests of attempt-1 to a provider.
type keyed struct {
	*world
	mine     string           // attempt-1's placeholder
	requests chan http.Header // headers that reached the provider, with X-Host and X-Url added
	release  chan struct{}    // once closed, the provider ends its stream
}

func newKeyed(t *testing.T) *keyed {
	requests, release := make(chan http.Header, 10), make(chan struct{})
	k := newKeyedWith(t, func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		h.Set("X-Host", r.Host)
		h.Set("X-Url", r.URL.String())
		requests <- h
		if r.URL.Path == "/v1/stream" {
			fmt.Fprint(w, "data: one\n\n")
			w.(http.Flusher).Flush()
			<-release
		}
		fmt.Fprint(w, "done")
	})
	k.requests, k.release = requests, release
	return k
}

// newKeyedWith returns a proxy to a provider that answers requests with answer.
func newKeyedWith(t *testing.T, answer http.HandlerFunc) *keyed {
	k := &keyed{}
	provider := httptest.NewTLSServer(answer)
	t.Cleanup(provider.Close)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: provider.Certificate().Raw,
	})) {
		t.Fatal("no certificate")
	}
	k.world = newWorld(t, Options{
		Keys: map[string]Key{
			"ANTHROPIC_API_KEY": {Host: "api.example.com", Value: realKey},
			"INSIDE_KEY":        {Host: "inside.example.com", Value: realKey},
		},
		TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"},
	}, provider.Listener)
	k.Admit("attempt-1")
	k.mine = k.Placeholder("attempt-1")
	return k
}

// post sends a request with one header through the proxy.
func (k *keyed) post(t *testing.T, path, header, value string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+k.at+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, value)
	r.Header.Set("X-Other", k.mine)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// TestKeysReachTheProvider shows that the proxy replaces the placeholder by the key in requests to the provider.
func TestKeysReachTheProvider(t *testing.T) {
	k := newKeyed(t)
	for _, h := range []struct{ name, before string }{
		{"X-Api-Key", ""},
		{"Authorization", "Bearer "},
		{"X-Goog-Api-Key", ""},
	} {
		answer := k.post(t, "/ANTHROPIC_API_KEY/v1/messages?beta=true", h.name, h.before+k.mine)
		got := <-k.requests
		if answer.StatusCode != 200 || got.Get(h.name) != h.before+realKey || got.Get("X-Other") != k.mine ||
			got.Get("X-Host") != "api.example.com" || got.Get("X-Url") != "/v1/messages?beta=true" {
			t.Errorf("%s: %d, %v", h.name, answer.StatusCode, got)
		}
	}
	k.post(t, "/ANTHROPIC_API_KEY/v1beta/models/x:generate?alt=sse&key="+k.mine, "X-None", "")
	if got := <-k.requests; got.Get("X-Url") != "/v1beta/models/x:generate?alt=sse" ||
		got.Get("X-Goog-Api-Key") != realKey {
		t.Errorf("%v", got)
	}
	if denied := k.Denied("attempt-1"); len(denied) > 0 {
		t.Error(denied)
	}
}

// TestKeysAreRefused shows that only the placeholder of a running attempt works, and that no answer leaks the key.
func TestKeysAreRefused(t *testing.T) {
	k := newKeyed(t)
	for _, x := range []struct {
		path, value string
		want        int
	}{
		{"/ANTHROPIC_API_KEY/v1/messages", "", 401},
		{"/ANTHROPIC_API_KEY/v1/messages", placeholderPrefix + "attempt-1-" + k.Token("attempt-2"), 401},
		{"/ANTHROPIC_API_KEY/v1/messages", k.Placeholder("attempt-2"), 401},
		{"/ANTHROPIC_API_KEY/v1/messages", realKey, 401},
		{"/OTHER_KEY/v1/messages", k.mine, 404},
		{"/ANTHROPIC_API_KEY%2Fv1/messages", k.mine, 404},
		{"/INSIDE_KEY/v1/messages", k.mine, 403}, // the host's address is not public
	} {
		answer := k.post(t, x.path, "X-Api-Key", x.value)
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != x.want || strings.Contains(string(text), realKey) {
			t.Errorf("%s with %q: %d %s, want %d", x.path, x.value, answer.StatusCode, text, x.want)
		}
	}
}

// TestKeysOfAStream shows that the proxy does not buffer a stream until it ends.
func TestKeysOfAStream(t *testing.T) {
	k := newKeyed(t)
	stream := k.post(t, "/ANTHROPIC_API_KEY/v1/stream", "X-Api-Key", k.mine)
	first := make([]byte, 64)
	n, err := stream.Body.Read(first)
	close(k.release)
	if rest, _ := io.ReadAll(stream.Body); string(first[:n]) != "data: one\n\n" || err != nil ||
		string(rest) != "done" {
		t.Errorf("%q, %v, then %q", first[:n], err, rest)
	}
	if denied := k.Denied("attempt-1"); len(denied) > 0 {
		t.Error(denied)
	}
}
