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
	// Made of a-z and 2-7; any digit is let through, as the customary example k3v9qx2m has a 9.
	nonceForm = regexp.MustCompile(`^[a-z0-9]{8}$`)
	// An owner may hold an underscore (managed users); a repository any of these but never "." or "..".
	repoForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
	shaForm  = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func checkNonce(op, nonce string) error {
	if !nonceForm.MatchString(nonce) {
		return refuse(op, "", "claim nonce %.40q: want 8 characters of a-z and 0-9", nonce)
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

// remote is where a repository is fetched from and pushed to.
type remote struct {
	url    string
	scheme string // of the one transport that git may use
	origin string // scheme://host[:port]/, where credentials may be sent; empty unless http or https
}

func parseRemote(op, raw string) (remote, error) {
	if filepath.IsAbs(raw) {
		return remote{url: raw, scheme: "file"}, nil
	}
	const next = "want http:// or https:// without credentials in it, or an absolute path"
	u, err := url.Parse(raw)
	if err != nil {
		return remote{}, refuse(op, next, "remote URL cannot be read") // err would quote it, credentials and all
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return remote{}, refuse(op, next, "remote URL %.120q", redact.Text(raw))
	}
	return remote{url: raw, scheme: u.Scheme, origin: u.Scheme + "://" + u.Host + "/"}, nil
}

// config is what git needs for this remote: its one transport, and the credentials as a header for its origin only.
func (r remote) config(user, token string) (config [][2]string, secrets []string) {
	config = [][2]string{{"protocol." + r.scheme + ".allow", "always"}}
	if r.origin == "" || token == "" {
		return config, nil
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
	config = append(
		config,
		[2]string{"http." + r.origin + ".extraHeader", "Authorization: Basic " + basic},
		// After a redirect git would send the header to whatever server it was led to.
		[2]string{"http.followRedirects", "false"},
	)
	return config, []string{token, basic}
}
