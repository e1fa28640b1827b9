package egress

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"

	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
)

// keyMethods are the methods that requests with keys may use. TRACE would return the request's headers, including the
// key.
var keyMethods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true,
	http.MethodPatch: true, http.MethodDelete: true, http.MethodOptions: true,
}

// unmaskable lists request headers that would let a provider send partial or encoded text, in which the proxy could not
// find the key. An upgrade would replace HTTP with another protocol.
var unmaskable = []string{"Range", "If-Range", "Te", "Upgrade", "Connection"}

// maskKeys masks the keys in a provider's answer. Some providers repeat the key, for example in a redirect or in a
// debugging page.
func (p *Proxy) maskKeys(a *http.Response) error {
	if a.StatusCode < http.StatusOK {
		return errors.New("the provider switched to a protocol that was not requested")
	}
	for name, texts := range a.Header {
		for i := range texts {
			texts[i] = p.keys.Mask(texts[i])
		}
		if p.keys.Mask(name) != name {
			delete(a.Header, name)
		}
	}
	body, err := decoded(a)
	if err != nil {
		return err
	}
	for _, h := range []string{"Content-Encoding", "Content-Length", "Content-Md5", "Digest", "Trailer"} {
		a.Header.Del(h)
	}
	a.Trailer = nil
	a.ContentLength = -1
	a.Body = &maskedBody{from: a.Body, text: body, stream: p.keys.Stream(), answer: a}
	return nil
}

// decoded returns a reader of the decompressed body. Compressed answers are rare, because withKey asks for identity
// encoding.
func decoded(a *http.Response) (io.Reader, error) {
	body := a.Body // the caller replaces it
	switch encoding := a.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		return &lazyReader{open: func() (io.Reader, error) { return gzip.NewReader(body) }}, nil
	case "deflate":
		return &lazyReader{open: func() (io.Reader, error) { return zlib.NewReader(body) }}, nil
	default:
		return nil, fmt.Errorf("the provider's response has the encoding %.20q, which was not requested", encoding)
	}
}

// lazyReader opens its reader on the first read, because an answer to HEAD has an encoding but an empty body.
type lazyReader struct {
	open func() (io.Reader, error)
	r    io.Reader
}

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.r == nil {
		r, err := l.open()
		if err != nil {
			return 0, err
		}
		l.r = r
	}
	return l.r.Read(p)
}

// maskedBody masks keys in a body. It holds back only text that might be the start of a key.
type maskedBody struct {
	from   io.Closer
	text   io.Reader
	stream redact.Stream
	answer *http.Response
	ready  []byte // masked text that Read has not returned yet
	err    error  // first error from reading text, returned after ready
	buffer [16 << 10]byte
}

func (b *maskedBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 && b.err == nil {
		n, err := b.text.Read(b.buffer[:])
		b.ready = append(b.ready, b.stream.Pass(string(b.buffer[:n]))...)
		if err != nil {
			b.err = err
			b.ready = append(b.ready, b.stream.Flush()...)
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	if n == 0 && len(p) > 0 {
		return 0, b.err
	}
	return n, nil
}

// Close also discards the trailers, which arrive after the body. Providers' APIs do not use trailers.
func (b *maskedBody) Close() error {
	err := b.from.Close()
	b.answer.Trailer = nil
	return err
}

// finalOnly discards interim responses (1xx), because ReverseProxy does not pass them to ModifyResponse.
type finalOnly struct{ http.ResponseWriter }

func (f finalOnly) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f finalOnly) WriteHeader(status int) {
	if status >= http.StatusOK {
		f.ResponseWriter.WriteHeader(status)
	}
}

// keyFinder finds the keys in answers.
func keyFinder(keys map[string]Key) *leak.Finder {
	var values []leak.Value
	for name, k := range keys {
		values = append(values, leak.Value{Name: name, Text: k.Value})
	}
	return leak.New(values...)
}
