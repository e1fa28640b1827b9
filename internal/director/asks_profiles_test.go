package director

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/agent"
	"retake/internal/config"
	"retake/internal/patience"
	"retake/internal/recovery"
)

// ownOf lists the names that a question about a profile must contain.
var ownOf = map[string]struct{ program, variable, provider string }{
	"claude-code": {"claude", "ANTHROPIC_API_KEY", "Anthropic"},
	"cline":       {"cline", "OPENROUTER_API_KEY", "OpenRouter"},
	"codex":       {"codex", "OPENAI_API_KEY", "OpenAI"},
	"continue":    {"cn", "OPENAI_API_KEY", "OpenAI"},
	"copilot":     {"copilot", "COPILOT_GITHUB_TOKEN", "GitHub"},
	"crush":       {"crush", "ANTHROPIC_API_KEY", "Anthropic"},
	"gemini":      {"gemini", "GEMINI_API_KEY", "Google"},
	"opencode":    {"opencode", "ANTHROPIC_API_KEY", "Anthropic"},
	"opencode-go": {"opencode", "OPENAI_API_KEY", "OpenAI"},
	"pi":          {"pi", "GEMINI_API_KEY", "Google"},
	"qwen":        {"qwen", "OPENAI_API_KEY", "OpenAI"},
}

// Kinds of failures of an agent, one for each issue in order. The test causes the last one by removing the program.
var profileKinds = []string{"login", "quota", "limit", "timeout", "crash", "missing"}

// askAtOnce sets a policy that asks a person about every failure.
func askAtOnce(t *testing.T, s *harness) {
	t.Helper()
	rows := "base = \"director\"\n"
	for _, a := range recovery.Reasons {
		rows += fmt.Sprintf("[[row]]\non = %q\nladder = []\nthen = \"escalate\"\n", a.Reason)
	}
	s.config.Recovery.PolicyFile = filepath.Join(filepath.Dir(s.config.Director.DataDir), "policy.toml")
	must(t, os.WriteFile(s.config.Recovery.PolicyFile, []byte(rows), 0o600))
}

// TestAsksNameTheProfilesOwn checks that the question about a failure of a profile names that profile's program,
// variable, provider and limit. The daily test takes all kinds of failures for one profile, and two kinds for each of
// the others, so that every kind occurs several times. The nightly test takes all kinds for all profiles.
func TestAsksNameTheProfilesOwn(t *testing.T) {
	t.Parallel()
	for i, name := range agent.Builtin().Names() {
		t.Run(name, func(t *testing.T) {
			if raced && name != "claude-code" {
				t.Skip("the other profiles run the same code with other words")
			}
			t.Parallel()
			kinds := profileKinds
			if n := len(kinds); name != "claude-code" && os.Getenv("RETAKE_NIGHTLY") == "" {
				a, b := i%n, (i+n/2)%n
				kinds = []string{kinds[min(a, b)], kinds[max(a, b)]} // a missing program comes last
			}
			askOfProfile(t, name, kinds)
		})
	}
}

func askOfProfile(t *testing.T, name string, kinds []string) {
	own, known := ownOf[name]
	if !known {
		t.Fatal("the table has no row for it")
	}
	limit := patience.For(5 * time.Second).Round(time.Second)
	s := newReal(t, map[string]string{own.program: playsProfile(t, name, kinds)}, config.Stage{
		Name: "CODE", Agent: name, Timeout: limit,
	})
	s.config.Containers.Env[own.variable] = "sk-not-a-real-key-0123456789"
	s.config.RateLimits.Model.CooldownOnError, s.config.RateLimits.Model.MinBetweenRequests = 0, 0
	askAtOnce(t, s)
	s.start()
	titles := map[string]string{
		"login": "`" + own.program + "` cannot log in to " + own.provider, "quota": "a quota of " + own.provider,
		"limit": own.provider + " keeps rate-limiting requests", "timeout": "`" + own.program + "` takes too long",
		"crash":   "`" + own.program + "` crashes",
		"missing": "`" + own.program + "`, the CODE program, is missing",
	}
	says := map[string]string{
		"login": "key in `" + own.variable + "`", "timeout": "now `" + shortSpan(limit) + "`",
		"missing": "Install `" + own.program + "` on the director's machine",
		"crash":   "on the director's machine",
	}
	for i, kind := range kinds {
		if kind == "missing" {
			must(t, os.Remove(filepath.Join(filepath.Dir(s.config.Director.DataDir), "bin", own.program)))
		}
		key := s.github.CreateIssue(repo, "octocat", "Paint "+kind, "", "agent-task")
		if want := fmt.Sprintf("#%d", i+1); !strings.HasSuffix(key, want) {
			t.Fatalf("%s, want %s", key, want)
		}
		q := s.question(key)
		above, _, _ := strings.Cut(q, "<details>")
		if !strings.Contains(above, titles[kind]) || !strings.Contains(above, says[kind]) {
			t.Errorf("%s: want %q and %q:\n%s", kind, titles[kind], says[kind], above)
		}
		for _, other := range []string{
			"GITHUB_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "docker", "image",
		} {
			if !strings.Contains(own.variable, other) && strings.Contains(above, other) {
				t.Errorf("%s: it names %s:\n%s", kind, other, above)
			}
		}
	}
}

// shortSpan formats a limit as questions do: 45s, 1m, 1m5s.
func shortSpan(d time.Duration) string {
	if d%time.Minute == 0 {
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}

// playsProfile returns a script that fails like the CLI of a profile, in a different way for each issue.
func playsProfile(t *testing.T, name string, kinds []string) string {
	t.Helper()
	script := "case ${RETAKE_ISSUE##*#} in\n"
	for i, kind := range kinds {
		if kind == "missing" {
			continue // the test removes the program
		}
		fails := map[string]string{"timeout": "exec sleep 600", "crash": "kill -SEGV $$"}[kind]
		if fails == "" {
			out, errs, exit := printed(t, name, kind)
			fails = fmt.Sprintf("cat <<'EOT'\n%sEOT\ncat >&2 <<'EOT'\n%sEOT\nexit %s", out, errs, exit)
		}
		script += fmt.Sprintf("%d)\n%s\n;;\n", i+1, fails)
	}
	return script + "esac"
}

// printed returns a recorded failure of a CLI: its output and exit code. For a quota it replaces the words of a refused
// login.
func printed(t *testing.T, name, kind string) (out, errs, exit string) {
	t.Helper()
	if text := textsOfCLIs[name+" "+kind]; text != "" {
		return "", text + "\n", "1"
	}
	file := map[string]string{"login": "401", "quota": "401", "limit": "429"}[kind]
	out, errs, exit = streamOf(t, name+"."+file)
	switch kind {
	case "quota":
		const quota = "You exceeded your current quota, please check your plan and billing details."
		words := strings.NewReplacer("Invalid API key · Fix external API key", quota,
			"Incorrect API key provided: sk-fake****0000.", quota, "Authentication failed with provider", quota,
			"Request had invalid authentication credentials. Expected OAuth 2 access token.", quota,
			"Request had invalid authentication credentials.", quota, "401 Unauthorized", "429 Too Many Requests",
			"401", "429", "authentication_failed", "billing_error", `"auth"`, `"quota"`, "invalid_api_key",
			"insufficient_quota", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "transient_auth_error", "transient_error",
			`"authentication"`, `"quota"`)
		out, errs = words.Replace(out), words.Replace(errs)
		if exit == "145" { // 401 modulo 256
			exit = "173"
		}
	case "limit": // gemini calls each limit a quota
		words := strings.NewReplacer("You exceeded your current quota, please check your plan and billing details.",
			"Too many requests per minute.", "RetryableQuotaError", "RetryableError")
		out, errs = words.Replace(out), words.Replace(errs)
	}
	return out, errs, exit
}

// streamOf returns output and exit code of a recorded run.
func streamOf(t *testing.T, name string) (out, errs, exit string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "internal/agent/testdata/streams", name+".txt"))
	must(t, err)
	head, rest, _ := strings.Cut(string(data), "-- stdout --\n")
	out, rest, _ = strings.Cut(rest, "-- stderr --\n")
	errs, _, _ = strings.Cut(rest, "-- events --\n")
	_, exit, _ = strings.Cut(head, "-- exit ")
	exit, _, _ = strings.Cut(exit, " ")
	return out, errs, exit
}

// textsOfCLIs are failures of CLIs that print plain text.
var textsOfCLIs = map[string]string{
	"crush login": "\n  ERROR  \n\n  POST \"https://api.anthropic.com/v1/messages\": 401 Unauthorized " +
		`{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}.`,
	"crush quota": "\n  ERROR  \n\n  POST \"https://api.anthropic.com/v1/messages\": 400 Bad Request " +
		`{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access ` +
		`the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}.`,
	"crush limit": "2025/07/30 19:39:41 WARN Retrying due to rate limit attempt=8 max_retries=8\n" +
		`2025/07/30 19:39:52 ERROR Agent processing failed error="maximum retry attempts reached for rate limit: ` +
		`8 retries"`,
	"opencode-go login": "Error: POST \"https://api.openai.com/v1/chat/completions\": 401 Unauthorized " +
		`{"message":"Incorrect API key provided: sk-not-a****6789.","type":"invalid_request_error",` +
		`"code":"invalid_api_key"}`,
	"opencode-go quota": "Error: POST \"https://api.openai.com/v1/chat/completions\": 429 Too Many Requests " +
		`{"message":"You exceeded your current quota, please check your plan and billing details.",` +
		`"type":"insufficient_quota","code":"insufficient_quota"}`,
	"opencode-go limit": "Error: maximum retry attempts reached for rate limit: 8 retries",
}
