package recovery_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	toml "github.com/pelletier/go-toml/v2"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
)

// failureInput is the description of an error object in the vectors of seeds 000 and 003.
type failureInput struct {
	Status         int    `json:"status"`
	ResponseStatus int    `json:"response_status"`
	StatusCode     int    `json:"status_code"`
	Errno          string `json:"errno"`
	CauseErrno     string `json:"cause_errno"`
	Type           string `json:"type"`
	Code           string `json:"force_code"`
	Message        string `json:"message"`
	RawString      string `json:"raw_string"`
	BodyError      struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"body_error"`
}

// evidence returns the error as evidence. It uses the first status that is not 0, and each text becomes a line of the
// message.
func (in failureInput) evidence() recovery.Evidence {
	e := recovery.Evidence{HTTPStatus: in.Status}
	for _, s := range []int{in.ResponseStatus, in.StatusCode} {
		if e.HTTPStatus == 0 {
			e.HTTPStatus = s
		}
	}
	var lines []string
	for _, l := range []string{
		in.Errno, in.CauseErrno, in.BodyError.Type, in.BodyError.Message, in.RawString,
		strings.TrimSpace(in.Type + " " + in.Code + " " + in.Message),
	} {
		if l != "" {
			lines = append(lines, l)
		}
	}
	e.Message = strings.Join(lines, "\n")
	return e
}

func inputOf(v vector, to any) string {
	if err := json.Unmarshal(v.Input, to); err != nil {
		return err.Error()
	}
	return ""
}

func deviation(f recovery.Finding, what string, got, want any) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s = %v, want %v (read as %s by %s)", what, got, want, f.Reason, f.Rule)
}

func checkGDD(_ *testing.T, c *classify.Classifier, v vector) string {
	var in failureInput
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	f := c.Classify(in.evidence())
	word, _ := recovery.As("gdd", f)
	if d := deviation(f, "reason", word, v.Expected["reason"]); d != "" {
		return d
	}
	retryable := slices.Contains([]string{"rate_limited", "context_overflow", "network_transient"}, word)
	return deviation(f, "retryable", retryable, v.Expected["retryable"])
}

// checkCortex classifies a message or the name of an exception's type.
func checkCortex(_ *testing.T, c *classify.Classifier, v vector) string {
	var in struct {
		Message string
		Type    string `json:"exception_type"`
	}
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	f := c.Classify(recovery.Evidence{Message: in.Message + in.Type})
	word, _ := recovery.As("cortex", f)
	for _, name := range []string{"class", "proposal", "class_guess"} {
		if want, ok := v.Expected[name]; ok {
			return deviation(f, name, word, want)
		}
	}
	return "nothing expected"
}

func checkEnum(_ *testing.T, _ *classify.Classifier, v vector) string {
	var in struct{ Type, Name string }
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	word := strings.ToLower(in.Name)
	if in.Type == "ErrorClass" {
		r, ok := recovery.FromWord("cortex", in.Name)
		if !ok {
			return in.Name + " is not understood"
		}
		word, _ = recovery.As("cortex", recovery.Finding{Reason: r})
	}
	return deviation(recovery.Finding{}, in.Name, word, v.Expected["value"])
}

func checkSDKRetry(_ *testing.T, c *classify.Classifier, v vector) string {
	var in struct{ Error string }
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	f := c.Classify(recovery.Evidence{Message: in.Error})
	about, _ := recovery.Describe(f.Reason)
	return deviation(f, "retry", about.Retryable, v.Expected["retry"])
}

// sdkNames maps reasons to the names of provider errors in seed 001's library.
var sdkNames = map[recovery.Reason]string{
	recovery.RateLimited: "RateLimitError", recovery.QuotaExhausted: "RateLimitError",
	recovery.AuthError:        "AuthenticationError",
	recovery.PermissionDenied: "AuthenticationError", recovery.Validation: "InvalidRequestError",
	recovery.InvalidConfig:   "InvalidRequestError",
	recovery.ContextOverflow: "ContextLengthError", recovery.Timeout: "TimeoutError",
	recovery.Overloaded:       "ServiceUnavailableError",
	recovery.NetworkTransient: "ServiceUnavailableError",
}

func checkSDKName(_ *testing.T, c *classify.Classifier, v vector) string {
	var in struct{ Error string }
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	f := c.Classify(recovery.Evidence{Message: in.Error})
	return deviation(f, "error", sdkNames[f.Reason], v.Expected["error"])
}

// checkTaskRetry derives the decision about the task from the reason's class.
func checkTaskRetry(_ *testing.T, c *classify.Classifier, v vector) string {
	var in failureInput
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	f := c.Classify(in.evidence())
	about, _ := recovery.Describe(f.Reason)
	word := "permanent"
	switch {
	case f.Reason == recovery.Unknown:
		word = "unknown"
	case about.Class == recovery.Transient:
		word = "retryable"
	}
	return deviation(f, "task_retry_class", word, v.Expected["task_retry_class"])
}

// checkTriage accepts either word if the seed's text and its program differ.
func checkTriage(_ *testing.T, c *classify.Classifier, v vector) string {
	var in struct {
		ExitCode int    `json:"exit_code"`
		Gate     string `json:"gate_result"`
		Stderr   string
	}
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	e := recovery.Evidence{Tool: "dispatch", ExitCode: &in.ExitCode, Stderr: in.Stderr}
	if r, ok := recovery.FromWord("dispatch", in.Gate); ok {
		e.Known = r
	}
	f := c.Classify(e)
	word, _ := recovery.As("dispatch", f)
	said, _ := v.Expected["seed_class"].(string)
	if first, _, _ := strings.Cut(said, " "); first == word {
		return ""
	}
	return deviation(f, "class", word, v.Expected["class"])
}

// exitOf returns a wrapper's exit code for an event, or nil.
func exitOf(t *testing.T, wrapper, event string) any {
	t.Helper()
	var rules struct {
		Exit []struct {
			Code        int
			Tool, Event string
		}
	}
	data, err := os.ReadFile("classify/rules.toml")
	if err := errors.Join(err, toml.Unmarshal(data, &rules)); err != nil {
		t.Fatal(err)
	}
	for _, row := range rules.Exit {
		if row.Event == event && row.Tool != "" && strings.HasPrefix(wrapper, row.Tool) {
			return float64(row.Code)
		}
	}
	return nil
}

func checkExitMap(t *testing.T, _ *classify.Classifier, v vector) string {
	var in struct{ Wrapper, Event string }
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	return deviation(recovery.Finding{}, in.Wrapper+" "+in.Event, exitOf(t, in.Wrapper, in.Event), v.Expected["exit"])
}

// wrapperCases maps cases of the seed's wrappers, by prefix of their name, to the result for the caller. An empty
// result is success. Longer prefixes come first.
var wrapperCases = []struct{ begins, wrapper, event string }{
	{"gemini_missing_binary", "gemini_headless", "missing_binary"},
	{"gemini_native_42", "gemini_headless", "native exit 42"},
	{"gemini_native_124", "gemini_headless", "timeout"},
	{"gemini_native_0", "gemini_headless", ""},
	{"gemini_native", "gemini_headless", "general_fail"},
	{"gemini_timeout", "gemini_headless", "timeout"},
	{"gemini_ok_no_output", "gemini_headless", "general_fail"},
	{"gemini_ok", "gemini_headless", ""},
	{"gemini_", "gemini_headless", "missing_input"},
	{"copilot_missing_binary", "copilot_tool", "missing_binary"},
	{"copilot_native_124", "copilot_tool", "timeout"},
	{"copilot_native_0", "copilot_tool", ""},
	{"copilot_native", "copilot_tool", "general_fail"},
	{"copilot_timeout", "copilot_tool", "timeout"},
	{"copilot_51200", "copilot_tool", ""},
	{"copilot_ok_no_output", "copilot_tool", "general_fail"},
	{"copilot_ok", "copilot_tool", ""},
	{"copilot_", "copilot_tool", "missing_input"},
	{"codex_missing_binary", "run_codex", "missing_binary"},
	{"codex_timeout", "run_codex", "timeout"},
	{"codex_native_0", "run_codex", ""},
	{"codex_native", "run_codex", "general_fail"},
	{"codex_ok_no_output", "run_codex", "general_fail"},
	{"codex_ok", "run_codex", ""},
	{"codex_", "run_codex", "missing_input"},
	{"wait_no_", "wait_parallel_tasks", "missing_input"},
	{"wait_bad", "wait_parallel_tasks", "missing_input"},
	{"wait_done_minlines_fail", "wait_parallel_tasks", "general_fail"},
	{"wait_done", "wait_parallel_tasks", ""},
	{"wait_", "wait_parallel_tasks", "general_fail"},
}

func checkWrapperExit(t *testing.T, _ *classify.Classifier, v vector) string {
	var in struct{ Case string }
	if bad := inputOf(v, &in); bad != "" {
		return bad
	}
	want, ok := v.Expected["seed_exit"]
	if !ok {
		want = v.Expected["exit"]
	}
	for _, w := range wrapperCases {
		if !strings.HasPrefix(in.Case, w.begins) {
			continue
		}
		got := any(0.0)
		if w.event != "" {
			got = exitOf(t, w.wrapper, w.event)
		}
		return deviation(recovery.Finding{}, in.Case, got, want)
	}
	return in.Case + " is not listed"
}
