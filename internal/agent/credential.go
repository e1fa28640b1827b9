package agent

import (
	"regexp"
	"slices"
	"strings"

	"retake/internal/bus/wire"
)

// keyOwners maps prefixes of variable names to the provider whose credential the variable holds. Variables without such
// a prefix may hold any credential.
var keyOwners = []struct{ prefix, provider string }{
	{"ANTHROPIC_", "anthropic"},
	{"CLAUDE_CODE_", "anthropic"},
	{"OPENAI_", "openai"},
	{"CODEX_", "openai"},
	{"GEMINI_", "google"},
	{"GOOGLE_", "google"},
	{"OPENROUTER_", "openrouter"},
	{"OPENCODE_", "opencode"},
	{"DASHSCOPE_", "dashscope"},
	{"CLINE_", "cline"},
	{"CONTINUE_", "continue"},
	{"AWS_", "bedrock"},
	{"COPILOT_GITHUB_", "github"},
	{"GITHUB_", "github"},
	{"GH_", "github"},
}

// keyOwner returns the provider of a variable's credential, or "" if the name does not show it.
func keyOwner(name string) string {
	for _, row := range keyOwners {
		if strings.HasPrefix(name, row.prefix) {
			return row.provider
		}
	}
	return ""
}

// KeysOf returns the variables with the provider's credentials, or all variables if none is recognised by name.
func KeysOf(provider string, variables []string) []string {
	own := slices.DeleteFunc(slices.Clone(variables), func(name string) bool { return keyOwner(name) != provider })
	if provider == "" || len(own) == 0 {
		return variables
	}
	return own
}

// Credential returns the provider that an agent's stage uses, and the variables that may hold that provider's key. set
// lists the variables passed to the agent. If set has one element, it determines the provider, unless the stage or the
// model specifies another.
func Credential(s wire.StagePlan, model string, set []string) (provider string, variables []string) {
	provider = Provider(s, model)
	if len(set) == 1 {
		if provider == "" || provider == s.Agent.Provider && s.Resource == "" {
			provider = keyOwner(set[0])
		}
		return provider, set
	}
	if variables = set; len(variables) == 0 {
		variables = s.Agent.Keys
	}
	return provider, KeysOf(provider, variables)
}

// gooseSays matches the start of the line in which goose names its provider.
const gooseSays = `(?m)^starting session \| provider: `

// refusers maps exceptions from LiteLLM and the providers' SDKs, and goose's first line, to the provider that answered.
var refusers = []struct {
	provider string
	says     *regexp.Regexp
}{
	{"anthropic", regexp.MustCompile(`\banthropic\.[A-Z][A-Za-z]+Error\b|\bAnthropicException\b|` +
		gooseSays + `anthropic `)},
	{"openai", regexp.MustCompile(`\bopenai\.[A-Z][A-Za-z]+Error\b[^\n]*\bplatform\.openai\.com\b|` +
		`\bOpenAIException\b|` + gooseSays + `openai `)},
	{"google", regexp.MustCompile(`\bgoogle\.genai\.errors\.[A-Z][A-Za-z]+Error\b|\bGeminiException\b|` +
		gooseSays + `google `)},
	{"openrouter", regexp.MustCompile(`\bOpenrouterException\b|` + gooseSays + `openrouter `)},
}

// Refuser returns the provider named by an exception, or by goose's first line, in a program's output. It returns "" if
// the output names several providers or none. Programs also use OpenAI's SDK for other providers, so Refuser recognises
// its exceptions only if they contain OpenAI's address.
func Refuser(text string) string {
	found := ""
	for _, r := range refusers {
		if r.says.MatchString(text) {
			if found != "" {
				return ""
			}
			found = r.provider
		}
	}
	return found
}
