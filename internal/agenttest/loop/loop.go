package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Options of Run.
type Options struct {
	BaseURL string // without /v1
	Key     string
	Model   string
	Prompt  string
	Dir     string // the working directory
	Out     io.Writer

	Tries       int           // maximum number of tries per request; default 4
	LongestWait time.Duration // longest wait between two requests; default 20 s
	Turns       int           // maximum number of model answers; default 20
	Idle        time.Duration // longest silence within a stream; default 60 s
	Backoff     time.Duration // first wait before a retry, unless the provider specifies one; default 500 ms
}

// Profile is the content of an agents file that describes this agent, cmd/agentloop.
const Profile = `[[agent]]
name = "agentloop"
program = "agentloop"
args = ["-p", "{prompt}"]
format = "retake"
provider = "anthropic"
keys = ["ANTHROPIC_API_KEY"]
`

// ErrTurns means that the model did not finish within Options.Turns answers.
var ErrTurns = errors.New("turn limit reached")

// errOverflow means that the prompt does not fit into the model's context.
var errOverflow = errors.New("the prompt is too long")

// message is one turn of the conversation.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is one part of a message: text, tool_use or tool_result.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

// loop is the state of one run.
type loop struct {
	Options
	tools    *tools
	client   *http.Client
	messages []message
}

// Run works until the model stops calling tools. If it fails, it prints its error and then a final event with ok false.
func Run(ctx context.Context, o Options) error {
	o.Tries, o.Turns = cmp.Or(o.Tries, 4), cmp.Or(o.Turns, 20)
	o.LongestWait, o.Idle, o.Backoff = cmp.Or(o.LongestWait, 20*time.Second), cmp.Or(o.Idle, time.Minute),
		cmp.Or(o.Backoff, 500*time.Millisecond)
	tools, err := openTools(o.Dir)
	if err != nil {
		return err
	}
	defer tools.close()
	l := &loop{
		Options: o, tools: tools, client: &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			Proxy:             http.ProxyFromEnvironment,
		}},
		messages: []message{{Role: "user", Content: []block{{Type: "text", Text: o.Prompt}}}},
	}
	defer l.client.CloseIdleConnections()
	err = l.work(ctx)
	if err != nil {
		l.fail(err, false, 0)
		l.print(event{Type: "final", OK: new(bool)})
	}
	return err
}

func (l *loop) work(ctx context.Context) error {
	for range l.Turns {
		a, err := l.ask(ctx)
		if err != nil {
			return err
		}
		l.print(event{Type: "usage", Tokens: a.in + a.out})
		l.messages = append(l.messages, message{Role: "assistant", Content: a.content})
		switch a.stop {
		case "tool_use":
			l.messages = append(l.messages, message{Role: "user", Content: l.use(ctx, a.content)})
		case "end_turn", "stop_sequence":
			ok := true
			l.print(event{Type: "final", OK: &ok, Text: a.text()})
			return nil
		case "max_tokens":
			return errors.New("the answer was cut off: maximum output tokens reached (stop_reason max_tokens)")
		case "refusal":
			return errors.New("the model refused to answer (stop_reason refusal): content policy")
		default:
			return fmt.Errorf("the answer ended with an unknown stop_reason: %q", a.stop)
		}
	}
	return fmt.Errorf("%w: not finished after %d answers", ErrTurns, l.Turns)
}

// ask gets the model's next answer. It retries transient errors, and shortens a prompt that is too long.
func (l *loop) ask(ctx context.Context) (answer, error) {
	wait := l.Backoff
	for try := 1; ; try++ {
		a, err := l.request(ctx)
		var refused *refusal
		isRefused := errors.As(err, &refused)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return a, context.Cause(ctx)
		case isRefused && refused.overflow() && l.shorten():
			l.fail(err, true, 0)
			l.print(event{Type: "progress", Step: "the context is full, so earlier results are omitted"})
			continue
		case isRefused && refused.overflow():
			return a, fmt.Errorf("%w, and the context cannot be shortened: %w", errOverflow, err)
		case try >= l.Tries || isRefused && !refused.retryable() || isHopeless(err):
			return a, err
		}
		pause := wait
		wait *= 2
		if isRefused && refused.after > 0 {
			pause = refused.after
		}
		if pause > l.LongestWait {
			return a, fmt.Errorf("giving up instead of waiting %v: %w", pause, err)
		}
		l.fail(err, true, pause)
		l.print(event{Type: "progress", Step: fmt.Sprintf("waiting %v before try %d of %d", pause, try+1, l.Tries)})
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return a, context.Cause(ctx)
		}
	}
}

// shorten removes tool results from all messages but the last, and reports whether it removed any.
func (l *loop) shorten() bool {
	done := false
	for _, m := range l.messages[:max(0, len(l.messages)-1)] {
		for i := range m.Content {
			if b := &m.Content[i]; b.Type == "tool_result" && b.Content != leftOut && len(b.Content) > len(leftOut) {
				b.Content, done = leftOut, true
			}
		}
	}
	return done
}

const leftOut = "(cut)"

// use carries out the tool calls of an answer and returns their results.
func (l *loop) use(ctx context.Context, content []block) []block {
	var results []block
	for _, b := range content {
		if b.Type != "tool_use" {
			continue
		}
		l.print(event{Type: "progress", Step: stepOf(b)})
		text, err := l.tools.call(ctx, b.Name, b.Input)
		if err != nil {
			text = err.Error()
		}
		results = append(results, block{
			Type: "tool_result", ToolUseID: b.ID, Content: cmp.Or(text, "(no output)"),
			IsError: err != nil,
		})
	}
	return results
}

// stepOf describes a tool call by the tool's name and the path or command.
func stepOf(b block) string {
	var in input
	_ = json.Unmarshal(b.Input, &in) // a step without a path or command has only the tool's name
	return strings.TrimSpace(b.Name + " " + cmp.Or(in.Path, in.Command))
}

// event is one line in the format "retake".
type event struct {
	Type       string            `json:"type"`
	Step       string            `json:"step,omitempty"`
	Tokens     int               `json:"tokens,omitempty"`
	Status     int               `json:"status,omitempty"`
	Message    string            `json:"message,omitempty"`
	Retryable  bool              `json:"retryable,omitempty"`
	RetryAfter float64           `json:"retry_after_seconds,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	OK         *bool             `json:"ok,omitempty"`
	Text       string            `json:"text,omitempty"`
}

func (l *loop) print(e event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = l.Out.Write(append(line, '\n')) // ignore a reader that has closed the pipe
	}
}

// fail prints an error. If a limit requires a wait, it prints the wait as a separate event, so that other workers can
// wait as well.
func (l *loop) fail(err error, retryable bool, pause time.Duration) {
	e := event{Type: "error", Message: err.Error(), Retryable: retryable}
	var refused *refusal
	if errors.As(err, &refused) {
		e.Status, e.Headers, e.RetryAfter = refused.status, refused.headers, refused.after.Seconds()
	}
	l.print(e)
	if retryable && (e.Status == 429 || e.Status == 503 || e.Status == 529) {
		l.print(event{Type: "rate_limited", Status: e.Status, RetryAfter: pause.Seconds(), Headers: e.Headers})
	}
}
