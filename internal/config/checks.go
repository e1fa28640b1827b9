package config

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"retake/internal/budget"
)

var (
	fleetForm   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	imageForm   = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._:/@-]{0,254}$`)
	prefixForm  = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	networkForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
	volumeForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{1,62}$`)
	envForm     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	repoForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	userForm    = regexp.MustCompile(`^[0-9]{1,10}:[0-9]{1,10}$`)
)

const (
	modelWant = "a model's name, of at most 200 characters without blanks, or nothing"
	fileWant  = "the path of a file, or nothing"
)

// checkAgentName leaves it to the table of agents whether there is such a one.
func checkAgentName(s string) string {
	if s == "" || nameForm.MatchString(s) {
		return ""
	}
	return "bad form"
}

func checkModel(s string) string {
	if len(s) > 200 || strings.HasPrefix(s, "-") || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "not the name of a model"
	}
	return ""
}

func checkResource(s string) string {
	if s == "" || budget.CheckResource(s) == nil {
		return ""
	}
	return "bad form"
}

const labelWant = "1 to 50 characters, no comma, no blanks at the ends"

func matches(form *regexp.Regexp) func(string) string {
	return func(s string) string {
		if form.MatchString(s) {
			return ""
		}
		return "bad form"
	}
}

func notEmpty(s string) string {
	if strings.TrimSpace(s) == "" {
		return "empty"
	}
	return ""
}

// systemDirs are places in a container that nothing may be put over.
var systemDirs = []string{"/", "/retake", "/tmp", "/proc", "/sys", "/dev", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr"}

func checkWorkdir(s string) string {
	switch {
	case !path.IsAbs(s) || path.Clean(s) != s || strings.Contains(s, ":"):
		return "not a clean absolute path"
	case s != "/" && overlaps(s, "/retake"):
		return "/retake is the worker's own"
	}
	for _, d := range systemDirs {
		if s == d || d != "/" && d != "/usr" && d != "/tmp" && within(s, d) {
			return "inside of the system's " + d
		}
	}
	return ""
}

// within tells whether the path is the folder or lies in it. Both are clean.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func overlaps(a, b string) bool { return within(a, b) || within(b, a) }

func checkUser(s string) string {
	if !userForm.MatchString(s) {
		return "bad form"
	}
	for part := range strings.SplitSeq(s, ":") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			return "number too large"
		}
		if n == 0 {
			return "workers never run as root"
		}
	}
	return ""
}

func checkNetwork(s string) string {
	switch s {
	case "host", "none", "default", "bridge":
		return "one of Docker's own networks"
	}
	return matches(networkForm)(s)
}

func checkVariable(s string) string {
	if strings.HasPrefix(s, "RETAKE_") {
		return "RETAKE_ variables are set by the director"
	}
	return matches(envForm)(s)
}

func checkBusURL(s string) string {
	if s == "" {
		return ""
	}
	for one := range strings.SplitSeq(s, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return "not a NATS URL"
		}
	}
	return ""
}

func checkListenAddr(s string) string {
	if _, err := netip.ParseAddr(s); err != nil && s != "auto" {
		return "bad form"
	}
	return ""
}

func checkRepository(s string) string {
	_, name, _ := strings.Cut(s, "/")
	switch {
	case !repoForm.MatchString(s) || name == "." || name == "..":
		return "bad form"
	case strings.HasSuffix(name, ".git"):
		return "no repository's name ends in .git"
	}
	return ""
}

func checkAPIURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "not an http(s) URL"
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "more than an address"
	}
	return ""
}

func checkTokenEnv(s string) string {
	if s == "" || envForm.MatchString(s) && !looksRandom(s) {
		return ""
	}
	return "not the name of a variable"
}

// looksRandom: a token can have the form of a variable's name, but people don't name variables like that.
func looksRandom(s string) bool {
	return len(s) >= 20 && strings.ContainsFunc(s, unicode.IsDigit) && strings.ContainsFunc(s, unicode.IsLower)
}

func checkLabel(s string) string {
	switch {
	case s == "" || strings.TrimSpace(s) != s:
		return "empty, or blanks at the ends"
	case utf8.RuneCountInString(s) > 50 || strings.Contains(s, ","):
		return "bad form"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "control characters"
	}
	return ""
}

// checkBranch follows git-check-ref-format(1).
func checkBranch(s string) string {
	bad := s == "" || len(s) > 100 || s == "@" || s == "HEAD" || strings.ContainsAny(s, " ~^:?*[\\\x7f") ||
		strings.Contains(s, "..") || strings.Contains(s, "@{") || strings.HasSuffix(s, ".") || strings.HasPrefix(s, "-") ||
		strings.ContainsFunc(s, unicode.IsControl)
	for part := range strings.SplitSeq(s, "/") {
		bad = bad || part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return "bad form"
	}
	return ""
}

// secretForms are the values that nobody should have in a file. Sources: the vendors' own descriptions of their tokens.
var secretForms = regexp.MustCompile(`gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|` +
	`\bsk-[A-Za-z0-9_-]{16,}|\bxox[abeprs]-[A-Za-z0-9-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{30,}|` +
	`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s@]+@`)

// secretNames are the parts of a name, split at underscores, that say that its value is a secret.
var secretNames = regexp.MustCompile(`(?i)(^|_)(token|secret|password|passwd|credentials?|apikey|(api|access|secret|private)_?key)(_|$)`)

func looksSecret(s string) bool { return secretForms.MatchString(s) }

func maskSecrets(s string) string { return secretForms.ReplaceAllString(s, "***") }
