package workspace

import (
	"encoding/base64"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"retake/internal/secrets/redact"
)

var (
	// Generated nonces contain only a-z and 2-7. The form accepts all digits, because the documentation's example,
	// k3v9qx2m, contains a 9.
	nonceForm = regexp.MustCompile(`^[a-z0-9]{8}$`)
	// Names of managed users contain underscores. Later checks refuse the names "." and "..".
	repoForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
	shaForm  = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

func checkNonce(op, nonce string) error {
	if !nonceForm.MatchString(nonce) {
		return refuse(op, "", "claim nonce %.40q: want 8 characters from a-z and 0-9", nonce)
	}
	return nil
}

func checkRepo(op, repo string) error {
	_, name, _ := strings.Cut(repo, "/")
	if !repoForm.MatchString(repo) || name == "." || name == ".." {
		return refuse(op, "check github.repositories", "repository %.120q: want owner/name", repo)
	}
	return nil
}

// remote is the URL of a repository.
type remote struct {
	url    string
	scheme string // the only transport that git may use
	origin string // scheme://host[:port]/, the only address that gets the credentials; empty unless http or https
}

func parseRemote(op, raw string) (remote, error) {
	if filepath.IsAbs(raw) {
		return remote{url: raw, scheme: "file"}, nil
	}
	const next = "want http:// or https:// without credentials, or an absolute path"
	u, err := url.Parse(raw)
	if err != nil {
		return remote{}, refuse(op, next, "cannot parse the remote URL") // err would quote the credentials
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return remote{}, refuse(op, next, "remote URL %.120q", redact.Text(raw))
	}
	return remote{url: raw, scheme: u.Scheme, origin: u.Scheme + "://" + u.Host + "/"}, nil
}

// config returns git's configuration for this remote. It allows only the remote's transport, and sends the credentials
// as a header to the remote's origin only. secrets are the values to mask in git's output.
func (r remote) config(user, token string) (config [][2]string, secrets []string) {
	config = [][2]string{{"protocol." + r.scheme + ".allow", "always"}}
	if r.origin == "" || token == "" {
		return config, nil
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
	config = append(
		config,
		[2]string{"http." + r.origin + ".extraHeader", "Authorization: Basic " + basic},
		// Git would also send the header to the target of a redirect.
		[2]string{"http.followRedirects", "false"},
	)
	return config, []string{token, basic}
}
