package loop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is the model's answer.
type answer struct {
	content []block
	stop    string
	in, out int // tokens
}

func (a answer) text() string {
	var all []string
	for _, b := range a.content {
		if b.Type == "text" {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n")
}

// refusal is an error sent by the provider.
type refusal struct {
	status  int // HTTP status; 0 inside a stream
	kind    string
	message string
	after   time.Duration
	headers map[string]string
}

func (r *refusal) Error() string {
	var words []string
	if r.status != 0 {
		words = append(words, strings.TrimSpace(fmt.Sprint(r.status, " ", http.StatusText(r.status))))
	}
	if r.kind != "" {
		words = append(words, r.kind)
	}
	return strings.Join(append(words, r.message), ": ")
}

// overflow reports whether the prompt was refused as too long.
func (r *refusal) overflow() bool {
	return r.status == http.StatusRequestEntityTooLarge || strings.Contains(r.message, "prompt is too long")
}

// retryKinds lists the transient errors that can occur inside a stream.
var retryKinds = []string{"overloaded_error", "rate_limit_error", "api_error", "timeout_error"}

func (r *refusal) retryable() bool {
	switch r.status {
	case 0:
		return slices.Contains(retryKinds, r.kind)
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return r.status >= 500
}

// isHopeless reports whether a retry cannot make the connection succeed.
func isHopeless(err error) bool {
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &name) && name.IsNotFound || errors.As(err, &cert) || errors.As(err, &record) ||
		errors.Is(err, http.ErrSchemeMismatch)
}

const system = "You are a coding agent. Working directory: %s\nUse the tools to do the task. End with one " +
	"sentence about your changes."

// request sends one request and reads the answer.
func (l *loop) request(ctx context.Context) (answer, error) {
	body, err := json.Marshal(map[string]any{
		"model": l.Model, "max_tokens": 8192, "stream": true, "tools": declared, "messages": l.messages,
		"system": fmt.Sprintf(system, l.Dir),
	})
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(l.Idle, func() {
		cancel(fmt.Errorf("the model timed out after %v of silence", l.Idle))
	})
	defer idle.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(l.BaseURL, "/")+"/v1/messages",
		bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Api-Key": {l.Key},
		"Anthropic-Version": {"2023-06-01"},
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return answer{}, because(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
		if err != nil {
			return answer{}, because(ctx, err)
		}
		return answer{}, refusalOf(resp, text)
	}
	a, err := readStream(resp.Body, func() { idle.Reset(l.Idle) })
	return a, because(ctx, err)
}

// because returns the cause of ctx instead of err if ctx is done, since that cause explains err.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Size limits in bytes for an error's body, the quoted part of any other body, and a line of a stream.
const (
	maxError = 64 << 10
	maxQuote = 600
	maxLine  = 4 << 20
)

// kept returns the headers that describe limits.
func kept(h http.Header) map[string]string {
	out := map[string]string{}
	for name := range h {
		if lower := strings.ToLower(name); lower == "retry-after" || strings.Contains(lower, "ratelimit") {
			out[lower] = h.Get(name)
		}
	}
	return out
}

// apiError is the format of the provider's errors.
type apiError struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

func refusalOf(resp *http.Response, text []byte) *refusal {
	r := &refusal{status: resp.StatusCode, headers: kept(resp.Header)}
	if s, err := strconv.ParseFloat(resp.Header.Get("Retry-After"), 64); err == nil {
		r.after = time.Duration(s * float64(time.Second))
	}
	var e apiError
	if json.Unmarshal(text, &e) == nil && e.Error.Message != "" {
		r.kind, r.message = e.Error.Type, e.Error.Message
	} else {
		r.message = strings.Join(strings.Fields(string(text[:min(len(text), maxQuote)])), " ")
	}
	return r
}

// errShort means that the stream ended before the answer was complete.
var errShort = fmt.Errorf("the stream was cut before the answer was complete: %w", io.ErrUnexpectedEOF)

// streamEvent is one event of a stream.
type streamEvent struct {
	apiError
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	Block block `json:"content_block"`
	Delta struct {
		Text       string `json:"text"`
		JSON       string `json:"partial_json"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

type usage struct {
	In  int `json:"input_tokens"`
	Out int `json:"output_tokens"`
}

// readStream reads an answer. It calls alive for each line.
func readStream(body io.Reader, alive func()) (answer, error) {
	var a answer
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	seen := false
	for lines.Scan() {
		alive()
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		seen = true
		var e streamEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return a, fmt.Errorf("the stream is broken: %w in %.80q", err, data)
		}
		switch e.Type {
		case "error":
			return a, &refusal{kind: e.Error.Type, message: e.Error.Message}
		case "message_stop":
			return a, nil
		}
		a.add(e)
	}
	switch err := lines.Err(); {
	case err != nil:
		return a, err
	case !seen:
		return a, fmt.Errorf("the answer is not an event stream: %w", errShort)
	}
	return a, errShort
}

// add processes the next event of an answer.
func (a *answer) add(e streamEvent) {
	switch e.Type {
	case "message_start":
		a.in = e.Message.Usage.In
	case "content_block_start":
		e.Block.Input = nil
		a.content = append(a.content, e.Block)
	case "content_block_delta":
		if e.Index < len(a.content) {
			b := &a.content[e.Index]
			b.Text += e.Delta.Text
			b.Input = append(b.Input, e.Delta.JSON...)
		}
	case "message_delta":
		a.stop, a.out = e.Delta.StopReason, e.Usage.Out
	}
}
