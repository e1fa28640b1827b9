package egress

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"retake/internal/secrets/leak"
)

// echoes are answers of providers that repeat the request, by path.
var echoes = map[string]http.HandlerFunc{
	"/redirect": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.example.com"+r.URL.RequestURI()+"#"+keyOf(r),
			http.StatusTemporaryRedirect)
	},
	"/page": func(w http.ResponseWriter, r *http.Request) {
		head, _ := httputil.DumpRequest(r, false)
		http.Error(w, "no such page: "+string(head), http.StatusNotFound)
	},
	"/headers": func(w http.ResponseWriter, r *http.Request) {
		for name, texts := range r.Header {
			w.Header().Set("Echo-"+name, texts[0])
		}
		w.Header().Set("Echo-"+keyOf(r), "a header with this name")
	},
	"/base64": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, base64.StdEncoding.EncodeToString([]byte("user:"+keyOf(r))),
			hex.EncodeToString([]byte(keyOf(r))))
	},
	"/json": func(w http.ResponseWriter, r *http.Request) {
		for _, c := range []byte(keyOf(r)) {
			fmt.Fprintf(w, `\u%04x`, c)
		}
	},
	"/chunks": func(w http.ResponseWriter, r *http.Request) {
		for _, c := range []byte("event: " + keyOf(r) + "\n\n") {
			_, _ = w.Write([]byte{c})
			w.(http.Flusher).Flush()
		}
	},
	"/gzip": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "compressed "+keyOf(r))
		_ = z.Close()
	},
	"/unknown": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "rot13")
		fmt.Fprint(w, keyOf(r))
	},
	"/range": func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "key.txt", time.Time{}, strings.NewReader("your key: "+keyOf(r)))
	},
	"/hints": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</"+keyOf(r)+">")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	},
	"/trailers": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Echo")
		fmt.Fprint(w, "text")
		w.Header().Set("X-Echo", keyOf(r))
		w.Header().Set(http.TrailerPrefix+"X-Late", keyOf(r))
	},
	"/upgrade": func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s",
			r.Header.Get("Upgrade")+"websocket", keyOf(r))
	},
}

// keyOf returns the key in a request to a provider.
func keyOf(r *http.Request) string {
	_, bearer, _ := strings.Cut(r.Header.Get("Authorization"), "Bearer ")
	return r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key") + bearer + r.URL.Query().Get("key")
}

// TestKeysAreNotEchoed checks that agents do not get the key from a provider that repeats the request. It searches all
// bytes of the answers, because HTTP clients hide trailers and interim responses.
func TestKeysAreNotEchoed(t *testing.T) {
	k := newKeyedWith(t, func(w http.ResponseWriter, r *http.Request) {
		if echo := echoes[r.URL.Path]; echo != nil {
			echo(w, r)
			return
		}
		http.NotFound(w, r)
	})
	finder := leak.Of(realKey)
	for path := range echoes {
		for _, where := range []string{"X-Api-Key: %s", "Authorization: Bearer %s", "X-Goog-Api-Key: %s", "?key=%s"} {
			head, query := fmt.Sprintf(where, k.mine)+"\r\n", ""
			if strings.HasPrefix(where, "?") {
				head, query = "", fmt.Sprintf(where, k.mine)
			}
			answer := k.raw(t, "GET /ANTHROPIC_API_KEY"+path+query, head+
				"Range: bytes=10-17\r\nAccept-Encoding: rot13, gzip\r\nConnection: Upgrade, close\r\n"+
				"Upgrade: websocket\r\n")
			if found := finder.Find(answer); len(found) > 0 || !strings.HasPrefix(answer, "HTTP/1.1 ") ||
				strings.Contains(answer, "401 Unauthorized") {
				t.Errorf("%s by %s: %+v\n%s", path, where, found, answer)
			}
			if path == "/range" && !strings.Contains(answer, "your key: ") {
				t.Errorf("a part of the answer was returned:\n%s", answer)
			}
		}
	}
	if answer := k.raw(t, "TRACE /ANTHROPIC_API_KEY/page", "X-Api-Key: "+k.mine+"\r\nConnection: close\r\n"); !strings.
		HasPrefix(answer, "HTTP/1.1 405 ") {
		t.Errorf("TRACE: %s", answer)
	}
}

// raw sends a request by hand and returns all bytes of the answer.
func (k *keyed) raw(t *testing.T, line, head string) string {
	t.Helper()
	c, err := net.Dial("tcp", k.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: proxy\r\n%s\r\n", line, head)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	for answer.StatusCode < 200 && answer.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("%s: interim response %d %v", line, answer.StatusCode, answer.Header)
		return ""
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	whole, _ := httputil.DumpResponse(answer, false)
	return string(whole) + string(text) + fmt.Sprint(answer.Trailer)
}
