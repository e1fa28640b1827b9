package githubtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// recorder buffers an answer until the server decides whether to send it.
type recorder struct {
	header http.Header
	body   bytes.Buffer
	status int
}

var _ http.ResponseWriter = (*recorder)(nil)

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// conditional sets the ETag of the answer to a successful GET. If the client sent the same ETag, it turns the answer
// into a 304 and returns true.
func (r *recorder) conditional(req *http.Request) bool {
	if req.Method != http.MethodGet || r.status != http.StatusOK {
		return false
	}
	sum := sha256.New()
	sum.Write(r.body.Bytes())
	_, _ = io.WriteString(sum, r.header.Get("Link"))
	tag := `W/"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	r.header.Set("ETag", tag)
	r.header.Set("Cache-Control", "private, max-age=60, s-maxage=60")
	if !strings.Contains(req.Header.Get("If-None-Match"), tag) {
		return false
	}
	r.status = http.StatusNotModified
	r.body.Reset()
	r.header.Del("Content-Type")
	return true
}

func (r *recorder) copyTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(max(r.status, 200))
	_, _ = w.Write(r.body.Bytes())
}

func (r *recorder) response(req *http.Request) *http.Response {
	status := max(r.status, 200)
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.header, Request: req,
		Body: io.NopCloser(bytes.NewReader(r.body.Bytes())), ContentLength: int64(r.body.Len()),
	}
}
