package classify

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// providerEvent builds an agent's event for a provider's answer.
func providerEvent(t *testing.T, fields map[string]any) recovery.Evidence {
	t.Helper()
	data, err := json.Marshal(map[string]any{"type": "error", "error": fields})
	if err != nil {
		t.Fatal(err)
	}
	code := 1
	return recovery.Evidence{Stdout: string(data), ExitCode: &code}
}

// TestProviderErrorByName checks that each code and type of the provider table decides the reason.
func TestProviderErrorByName(t *testing.T) {
	c := newClassifier(t)
	for i := range c.rules {
		p := c.rules[i].answer
		if p == nil {
			continue
		}
		for _, name := range slices.Concat(p.Code, p.Type) {
			fields := map[string]any{"message": "x"}
			if slices.Contains(p.Code, name) {
				fields["code"], fields["type"] = name, "invalid_request_error"
			} else {
				fields["type"] = name
			}
			if len(p.Says) > 0 {
				fields["message"] = p.Says[0]
			}
			if len(p.Status) > 0 {
				fields["status"] = p.Status[0]
			}
			f := c.Classify(providerEvent(t, fields))
			if f.Reason != c.rules[i].Reason {
				t.Errorf("%s: %v is read as %s by %s, want %s", p.ID, fields, f.Reason, f.Rule, c.rules[i].Reason)
			}
		}
	}
}

// TestProviderErrorRanks checks that a code takes precedence over a type, and a type over a status. The words of the
// message make each of them more specific.
func TestProviderErrorRanks(t *testing.T) {
	c := newClassifier(t)
	for name, row := range map[string]struct {
		fields map[string]any
		want   recovery.Reason
	}{
		"code over type": {map[string]any{
			"type": "invalid_request_error", "code": "context_length_exceeded",
			"message": "x",
		}, recovery.ContextOverflow},
		"code over status": {
			map[string]any{"code": "insufficient_quota", "status": 429, "message": "x"},
			recovery.QuotaExhausted,
		},
		"type over status": {
			map[string]any{"type": "rate_limit_error", "status": 400, "message": "x"},
			recovery.RateLimited,
		},
		"status over a vague type": {
			map[string]any{"type": "invalid_request_error", "status": 404, "message": "x"},
			recovery.InvalidConfig,
		},
		"words over type": {map[string]any{
			"type":    "rate_limit_error",
			"message": "prompt is too long: 3 tokens > 2 maximum",
		}, recovery.ContextOverflow},
		"words narrow a code": {map[string]any{
			"code":    "rate_limit_exceeded",
			"message": "Request too large for gpt-4o",
		}, recovery.ContextOverflow},
		"words do not beat a code": {
			map[string]any{"code": "invalid_api_key", "message": "The model is overloaded"},
			recovery.AuthError,
		},
		"a type is narrowed": {map[string]any{
			"type":    "invalid_request_error",
			"message": "Your credit balance is too low",
		}, recovery.QuotaExhausted},
		"text narrows the meaning of a status": {
			map[string]any{"type": "permission_error", "message": "API rate limit exceeded"},
			recovery.RateLimited,
		},
		"no name, no words": {map[string]any{"status": 529, "message": "x"}, recovery.Overloaded},
	} {
		if f := c.Classify(providerEvent(t, row.fields)); f.Reason != row.want {
			t.Errorf("%s: %v is read as %s by %s, want %s", name, row.fields, f.Reason, f.Rule, row.want)
		}
	}
}

// TestProviderErrorWait checks that a stated wait is ignored for an exhausted quota, and kept for a rate limit.
func TestProviderErrorWait(t *testing.T) {
	c := newClassifier(t)
	for message, want := range map[string]time.Duration{
		`{"error":{"code":"insufficient_quota","message":"You exceeded your quota. Please try again in 20s."}}`: 0,
		`{"error":{"code":"rate_limit_exceeded","message":"Slow down. Please try again in 20s."}}`:              20 * time.Second,
	} {
		if f := c.Classify(recovery.Evidence{Stderr: message}); f.RetryAfter != want {
			t.Errorf("%s: wait %s by %s, want %s", message, f.RetryAfter, f.Rule, want)
		}
	}
}

// TestProviderErrorOfUser checks that a user's file adds rows, and replaces rows with the same id.
func TestProviderErrorOfUser(t *testing.T) {
	c, err := New([]byte(`
[[provider_error]]
id = "acme.seats"
provider = "Acme"
code = ["no_seat_left"]
reason = "quota_exhausted"
source = "our operators"
examples = ['{"error":{"code":"no_seat_left"}}']
`))
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Classify(providerEvent(t,
		map[string]any{"code": "no_seat_left", "message": "x"})); f.Reason != recovery.QuotaExhausted {
		t.Errorf("read as %s by %s", f.Reason, f.Rule)
	}
	_, err = New([]byte("[[provider_error]]\nid = \"a\"\nprovider = \"A\"\nsource = \"x\"\nexamples = [\"y\"]\nlike " +
		"= 299\nreason = \"overloaded\"\n"))
	for _, want := range []string{"code, type or says is required", "want either reason or like"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
	_, err = New([]byte("[[provider_error]]\nid = \"a\"\nprovider = \"A\"\nsource = \"x\"\nexamples = [\"no_seat: " +
		"Too Many\"]\nreason = \"overloaded\"\n" +
		"code = [\"no_seat\", \"\"]\nsays = [\"Too Many\"]\nunless = [\"Not\"]\n"))
	for _, want := range []string{
		"8:9: provider_error[0].says[0]: \"Too Many\": want one non-empty line in lower case",
		"unless[0]", "7:20: provider_error[0].code[1]: \"\": want a name",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), ".any") {
		t.Errorf("err = %v mentions a key that the row lacks", err)
	}
}
