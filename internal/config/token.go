package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"retake/internal/secrets/redact"
)

// maxTokenBytes limits the size of a file with a secret. It is far above the length of any GitHub token (255) or
// private key (3,300), so a longer file must be the wrong file.
const maxTokenBytes = 16 << 10

// secretPlace is the source of a secret: a variable, or a file, which takes precedence.
type secretPlace struct {
	what     string // for messages: "GitHub token"
	name     string // common part of its keys, <name>_env and <name>_file
	variable string // empty if not configured
	file     string // empty if not configured
	put      string // for messages: the content that the file or variable should have
}

func (p secretPlace) env() string    { return p.name + "_env" }
func (p secretPlace) inFile() string { return p.name + "_file" }

// key returns the key from which the secret is read.
func (p secretPlace) key() string {
	if p.file != "" {
		return p.inFile()
	}
	return p.env()
}

func (c Config) tokenPlace() secretPlace {
	return secretPlace{
		"GitHub token", "github.token", c.GitHub.TokenEnv, c.GitHub.TokenFile,
		"a token with access to issues and contents",
	}
}

func (c Config) webhookSecretPlace() secretPlace {
	return secretPlace{
		"webhook secret", "github.webhook_secret", c.GitHub.WebhookSecretEnv, c.GitHub.WebhookSecretFile,
		"the webhook secret that is set on GitHub",
	}
}

// Token reads the GitHub token from github.token_file, or else from the variable named in github.token_env. Errors and
// warnings never contain the token. The warning is for the log, and is empty unless all users can read the file.
func (c Config) Token(getenv func(string) string) (token, warning string, err error) {
	return c.tokenPlace().read(getenv)
}

// IsApp reports whether any key of a GitHub App is set, so that the director authenticates as the App, not with a
// token.
func (c Config) IsApp() bool {
	return c.GitHub.AppID != 0 || c.GitHub.InstallationID != 0 || c.GitHub.PrivateKeyFile != ""
}

// PrivateKey reads the GitHub App's key from github.private_key_file. See Token for errors and warnings.
func (c Config) PrivateKey() (key []byte, warning string, err error) {
	text, warning, err := readSecret("github.private_key_file", c.GitHub.PrivateKeyFile)
	if err == nil && !strings.Contains(text, "PRIVATE KEY-----") {
		err = fmt.Errorf("config: github.private_key_file %s has no private key; want the PEM file that GitHub "+
			"created for the App", c.GitHub.PrivateKeyFile)
	}
	return []byte(text), warning, err
}

// WebhookSecret reads the secret for GitHub's webhooks from github.webhook_secret_file, or else from the variable named
// in github.webhook_secret_env. See Token for errors and warnings.
func (c Config) WebhookSecret(getenv func(string) string) (secret, warning string, err error) {
	return c.webhookSecretPlace().read(getenv)
}

func (c Config) pageTokenPlace() secretPlace {
	return secretPlace{
		"page token", "director.page_token", c.Director.PageTokenEnv, c.Director.PageTokenFile,
		"a long random string, such as the output of `openssl rand -hex 32`",
	}
}

func metricsTokenPlace(c Config) secretPlace {
	return secretPlace{
		"metrics token", "director.metrics_token", c.Director.MetricsTokenEnv, c.Director.MetricsTokenFile,
		"a long random string, such as the output of `openssl rand -hex 32`",
	}
}

// secretPlaces lists the sources of all secrets except the private key of a GitHub App.
func secretPlaces(c Config) []secretPlace {
	return []secretPlace{c.tokenPlace(), c.webhookSecretPlace(), c.pageTokenPlace(), metricsTokenPlace(c)}
}

// minHTTPToken is the minimum length of a page token or metrics token, in bytes. Shorter tokens could be guessed.
const minHTTPToken = 16

// PageToken reads the token with which people sign in to the page, from director.page_token_file, or else from the
// variable named in director.page_token_env. It returns an empty token without an error if no file is configured and
// the variable is not set. Errors never contain the token.
func (c Config) PageToken(lookup func(string) (string, bool)) (string, error) {
	return c.pageTokenPlace().readOptional(lookup)
}

// MetricsToken reads the bearer token for /metrics from director.metrics_token_file, or else from the variable named in
// director.metrics_token_env. It is optional like the page token; see PageToken.
func (c Config) MetricsToken(lookup func(string) (string, bool)) (string, error) {
	return metricsTokenPlace(c).readOptional(lookup)
}

func (p secretPlace) readOptional(lookup func(string) (string, bool)) (string, error) {
	if _, set := lookup(p.variable); p.file == "" && !set {
		return "", nil
	}
	token, _, err := p.read(func(name string) string { value, _ := lookup(name); return value })
	if err == nil && len(token) < minHTTPToken {
		return "", fmt.Errorf("config: %s has only %d characters: want at least %d, such as the output of `openssl "+
			"rand -hex 32`", p.key(), len(token), minHTTPToken)
	}
	return token, err
}

// TakesWebhooks reports whether the director accepts GitHub's webhooks, which requires an HTTP address and a secret.
func (c Config) TakesWebhooks(lookup func(string) (string, bool)) bool {
	_, set := lookup(c.GitHub.WebhookSecretEnv)
	return c.Director.HTTPListen != "" && (c.GitHub.WebhookSecretFile != "" || c.GitHub.WebhookSecretEnv != "" && set)
}

func (p secretPlace) read(getenv func(string) string) (secret, warning string, err error) {
	where := "environment variable " + p.variable
	if p.file != "" {
		where = p.inFile() + " " + p.file
		if secret, warning, err = readSecret(p.inFile(), p.file); err != nil {
			return "", "", err
		}
	} else if p.variable != "" {
		secret = getenv(p.variable)
	}
	secret = strings.TrimSpace(secret)
	switch {
	case p.file == "" && p.variable == "":
		return "", "", fmt.Errorf("config: no %s: set %s or %s", p.what, p.env(), p.inFile())
	case secret == "":
		return "", "", fmt.Errorf("config: no %s: %s is empty or not set; set it to %s, or configure another source "+
			"with %s or %s", p.what, where, p.put, p.env(), p.inFile())
	case strings.ContainsFunc(secret, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) ||
			r > unicode.MaxASCII
	}):
		return "", "", fmt.Errorf("config: no %s: %s must contain only %s, on one line and without spaces",
			p.what, where, p.put)
	}
	return secret, warning, nil
}

// Private returns the absolute paths of directories and files that only the director may read.
func (c Config) Private() (all []string) {
	for _, path := range []string{
		c.Director.DataDir, c.Director.SharedDir, c.AgentBus.Credentials, c.GitHub.TokenFile, c.GitHub.PrivateKeyFile,
		c.GitHub.WebhookSecretFile,
		c.Director.PageTokenFile, c.Director.MetricsTokenFile,
	} {
		if abs, err := filepath.Abs(path); path != "" && err == nil {
			all = append(all, abs)
		}
	}
	return all
}

// IsSecretVariable reports whether the director must withhold a variable from its child processes. It returns true for
// the configured secret variables, for variables passed on to workers, and for variables whose names suggest a secret.
func (c Config) IsSecretVariable(name string) bool {
	named := []string{
		c.GitHub.TokenEnv, c.GitHub.WebhookSecretEnv, c.Director.PageTokenEnv, c.Director.MetricsTokenEnv,
		c.Telemetry.OTLPHeadersEnv,
	}
	_, proxied := c.Containers.ProxiedKeys[name]
	return proxied || slices.Contains(named, name) || slices.Contains(c.Containers.EnvPassthrough, name) ||
		redact.IsSecretVariable(name) && !strings.HasPrefix(name, EnvPrefix)
}

// readSecret reads the secret file configured by a key. Its errors contain the word "names" between the key and the
// path, because redaction would mask a path that directly follows token_file.
func readSecret(key, path string) (secret, warning string, err error) {
	data, err := readFile(path, maxTokenBytes)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("config: %s names %s: %w; write the secret there and make it readable by the "+
			"director's user", key,
			path, err)
	case len(data) > maxTokenBytes:
		return "", "", fmt.Errorf("config: %s names %s, which exceeds %d bytes; want a file with only the "+
			"secret", key, path,
			maxTokenBytes)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		warning = fmt.Sprintf("%s %s is readable by all users: chmod 600 it", key, path)
	}
	return string(data), warning, nil
}
