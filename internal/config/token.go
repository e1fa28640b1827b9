package config

import (
	"fmt"
	"os"
	"strings"
	"unicode"
)

// maxTokenBytes is far above the length of any GitHub token (255), so that a wrong file is noticed.
const maxTokenBytes = 4 << 10

// Token reads the GitHub token from github.token_file, or else from the variable that github.token_env names. Errors and
// warnings never contain the token. The warning is for the log: everybody can read the file.
func (c Config) Token(getenv func(string) string) (token, warning string, err error) {
	where := "environment variable " + c.GitHub.TokenEnv
	if c.GitHub.TokenFile != "" {
		where = "github.token_file " + c.GitHub.TokenFile
		if token, warning, err = readToken(c.GitHub.TokenFile); err != nil {
			return "", "", err
		}
	} else if c.GitHub.TokenEnv != "" {
		token = getenv(c.GitHub.TokenEnv)
	}
	token = strings.TrimSpace(token)
	switch {
	case c.GitHub.TokenFile == "" && c.GitHub.TokenEnv == "":
		return "", "", fmt.Errorf("config: no GitHub token: set github.token_env or github.token_file")
	case token == "":
		return "", "", fmt.Errorf("config: no GitHub token: %s is empty or not set; put a token with access to issues and contents there, or name another place in github.token_env or github.token_file", where)
	case strings.ContainsFunc(token, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }):
		return "", "", fmt.Errorf("config: no GitHub token: %s holds more than a token; want the token alone, on one line", where)
	}
	return token, warning, nil
}

func readToken(path string) (token, warning string, err error) {
	data, err := readFile(path, maxTokenBytes)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("config: github.token_file %s: %w; write the token there, readable for the director's user", path, err)
	case len(data) > maxTokenBytes:
		return "", "", fmt.Errorf("config: github.token_file %s has more than %d bytes; want the token alone", path, maxTokenBytes)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		warning = fmt.Sprintf("github.token_file %s can be read by everybody; chmod 600 it", path)
	}
	return string(data), warning, nil
}
