package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func read(t testing.TB, format string, pieces ...string) ([]Event, Outcome) {
	t.Helper()
	r, err := NewReader(format)
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for _, p := range pieces {
		events = append(events, r.Write([]byte(p))...)
	}
	events = append(events, r.Close()...)
	var o Outcome
	for _, e := range events {
		o.Add(e)
	}
	return events, o
}

func TestUnknownFormat(t *testing.T) {
	if _, err := NewReader("xml"); err == nil || !strings.Contains(err.Error(), "claude, cline") {
		t.Error(err)
	}
}

// TestOverlongLine checks that the last event in an overlong line still counts.
func TestOverlongLine(t *testing.T) {
	long := `[{"type":"user","content":"` + strings.Repeat(`{\"type\":`, 300_000) +
		`"},{"type":"result","subtype":"success","is_error":false,"result":"[API Error: 429 slow down]"}]`
	r, err := NewReader("claude")
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for rest := long; rest != ""; {
		n := min(4096, len(rest))
		events = append(events, r.Write([]byte(rest[:n]))...)
		if kept := cap(r.pending) + cap(r.document); kept > 4*maxLine {
			t.Fatalf("%d bytes retained", kept)
		}
		rest = rest[n:]
	}
	events = append(events, r.Close()...)
	events = append(events, r.Write([]byte("\n{\"type\":\"result\",\"result\":\"well\"}\n"))...)
	var o Outcome
	for _, e := range events {
		o.Add(e)
	}
	if len(events) != 3 || o.Answer != "well" || events[0].(Failure).Status != 429 {
		t.Errorf("%+v", events)
	}
}

// TestDocuments checks that an object may span several lines, and that a false start of one does not hide events.
func TestDocuments(t *testing.T) {
	_, o := read(t, "gemini", "noise\n{\n  \"response\": \"done\",\n  \"stats\": {}\n}\n")
	if !o.OK || o.Answer != "done" {
		t.Errorf("%+v", o)
	}
	_, o = read(t, "claude", "[\n  {\"type\":\"result\",\"result\":\"done\"}\n]")
	if !o.OK || o.Answer != "done" {
		t.Errorf("%+v", o)
	}
	_, o = read(t, "opencode", "{\n", `{"type":"text","part":{"text":"done"}}`+"\n",
		`{"type":"step_finish","part":{"reason":"stop"}}`)
	if !o.OK || o.Answer != "done" {
		t.Errorf("%+v", o)
	}
	_, o = read(t, "gemini", "{\n"+strings.Repeat("  \"x\n", 100_000)+"[ERROR] late\n")
	if o.FinalFailure() == nil {
		t.Errorf("%+v", o)
	}
}

func TestTextFormat(t *testing.T) {
	_, o := read(t, "text", "all ", "is well\n")
	if !o.OK || o.Answer != "all is well" || o.Contradiction(0, OlderWork) != "" {
		t.Errorf("%+v", o)
	}
	for _, nothing := range []string{
		"", "\n \t\r\n", "\x1b[2J\x1b[?25l\x1b[0m\n", "\x1b]0;agent\a\x1b]11;?\x1b\\\n",
		"\x1b(B\x1b=\a\n", "\x1bP1$r0m\x1b\\\x1b_x\x1b\\\n", "\xc2\x9b2J\n",
	} {
		if _, o = read(t, "text", nothing); o.Contradiction(0, OlderWork) == "" || o.Contradiction(0, NewWork) != "" {
			t.Errorf("%q: %+v", nothing, o)
		}
	}
}

func TestOwnFormat(t *testing.T) {
	events, o := read(t, "retake", `{"type":"progress","step":"reading"}
{"type":"usage","tokens":100,"cost_usd":0.5,"paid_calls":2,"cache_hits":1}
{"type":"usage","tokens":-5,"cost_usd":-1,"paid_calls":1e300,"cache_hits":"x"}
{"type":"rate_limited","retry_after_seconds":30,"headers":{"Retry-After":"30","authorization":"secret"}}
{"type":"error","status":503,"message":"busy","retryable":true}
{"type":"denied","what":"rm"}
not json
{"type":"final","ok":true,"text":"done"}
`)
	if u := o.Usage(); u.Tokens != 100 || u.CostUSD != 0.5 || u.PaidCalls != maxCount || u.CacheHits != 1 {
		t.Errorf("%+v", u)
	}
	if l := o.RateLimit; l.Status != 429 || l.RetryAfter != 30*time.Second || len(l.Headers) != 1 ||
		l.Headers["retry-after"] != "30" {
		t.Errorf("%+v", l)
	}
	if !o.OK || len(o.Denials) != 1 || events[0] != (Progress{"reading"}) {
		t.Errorf("%+v, %+v", o, events)
	}
}

// TestTroubleThatIsOver checks that an error no longer counts once the model answers, even if the stream is cut later.
func TestTroubleThatIsOver(t *testing.T) {
	var o Outcome
	o.Add(Failure{Status: 429, Retryable: true})
	if o.FinalFailure() == nil {
		t.Error("it is not over yet")
	}
	o.Add(UsageReport{Usage: Usage{Tokens: 1}})
	if o.FinalFailure() != nil {
		t.Errorf("%+v", o.FinalFailure())
	}
}

func FuzzReader(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add([]byte(r.stdout), uint16(13))
		f.Add([]byte(r.stderr), uint16(1))
	}
	f.Add([]byte("{\n[\n{\"type\":\"result\",\"is_error\":true,\"errors\":[1]}\n"), uint16(3))
	f.Add([]byte("{\"type\":\"usage\",\"tokens\":1e999,\"cost_usd\":-1e308}\n\xff\x00\x1b["), uint16(2))
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		for _, name := range Formats() {
			whole, _ := read(t, name, string(data))
			var parts []string
			for rest := string(data); rest != ""; {
				n := min(int(piece)%97+1, len(rest))
				parts, rest = append(parts, rest[:n]), rest[n:]
			}
			cut, o := read(t, name, parts...)
			if fmt.Sprint(whole) != fmt.Sprint(cut) {
				t.Errorf("%s: %v\nin pieces: %v", name, whole, cut)
			}
			if u := o.Usage(); u.Tokens < 0 || u.PaidCalls < 0 || u.CacheHits < 0 || u.CostUSD < 0 ||
				u.CostUSD > maxCostUSD {
				t.Errorf("%s: %+v", name, u)
			}
			if e := o.FinalFailure(); e != nil && (len(e.Message) > maxMessage || e.RetryAfter < 0 ||
				e.RetryAfter > longestWait) {
				t.Errorf("%s: %+v", name, e)
			}
		}
	})
}
