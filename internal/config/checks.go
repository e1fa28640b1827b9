package config

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/docker/go-units"

	"retake/internal/budget"
	"retake/internal/worktree"
)

var (
	fleetForm   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	imageForm   = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._:/@-]{0,254}$`)
	prefixForm  = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	networkForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
	volumeForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{1,62}$`)
	envForm     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	repoForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
	agentForm   = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,63})?$`) // a rule checks that the agent exists
	modelForm   = regexp.MustCompile(`^([^-\s\p{Z}\p{Cc}][^\s\p{Z}\p{Cc}]{0,199})?$`)
	labelForm   = regexp.MustCompile(`^[^,\s\p{Z}\p{Cc}]([^,\p{Cc}]{0,48}[^,\s\p{Z}\p{Cc}])?$`)
)

const (
	modelWant = "a model name of at most 200 characters without spaces; may be empty"
	fileWant  = "a path; may be empty"
	globWant  = "a glob such as \".mine/\", optionally prefixed with !"
	labelWant = "1 to 50 characters without commas or leading or trailing spaces"
)

func notBlank(s string) bool { return strings.TrimSpace(s) != "" }

func validResource(s string) bool { return s == "" || budget.CheckResource(s) == nil }

func validMemory(s string) bool {
	n, err := units.RAMInBytes(s)
	return err == nil && n >= 16<<20 && n <= 16<<40
}

func validQuota(s string) bool { return s == "" || validMemory(s) }

// systemDirs are container directories that mounts must not cover.
var systemDirs = []string{
	"/", "/retake", "/tmp", "/proc", "/sys", "/dev", "/etc", "/bin", "/sbin", "/lib", "/lib64",
	"/usr",
}

// validWorkdir rejects the system directories and their subdirectories, except subdirectories of /usr and /tmp.
func validWorkdir(s string) bool {
	return path.IsAbs(s) && path.Clean(s) == s && !strings.Contains(s, ":") &&
		!slices.ContainsFunc(systemDirs, func(d string) bool {
			return s == d || d != "/" && d != "/usr" && d != "/tmp" && within(s, d)
		})
}

// within reports whether p is dir or below dir. Both paths must be clean.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func overlaps(a, b string) bool { return within(a, b) || within(b, a) }

func validUser(s string) bool {
	uid, gid, _ := strings.Cut(s, ":")
	u, err := strconv.ParseUint(uid, 10, 31)
	g, err2 := strconv.ParseUint(gid, 10, 31)
	return err == nil && err2 == nil && u > 0 && g > 0
}

// ociForm matches the name of an OCI runtime.
var ociForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

func validOCIRuntime(s string) bool { return s == "" || ociForm.MatchString(s) }

// namespaceForm matches a DNS label.
var namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func validNamespace(s string) bool { return s == "" || namespaceForm.MatchString(s) }

// addressForm matches a DNS name, even a single label.
var addressForm = regexp.MustCompile(
	`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

func validAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return s == "" || err == nil || len(s) <= 253 && addressForm.MatchString(s)
}

func validNetwork(s string) bool {
	return networkForm.MatchString(s) && !slices.Contains([]string{"host", "none", "default", "bridge"}, s)
}

const egressWant = `"all", "none", or a list of hosts such as "api.anthropic.com", "*.pypi.org" or "git.example.com:8443"`

// hostForm matches a host name with at least one dot, optionally with a port. A leading *. stands for one or more
// labels.
var hostForm = regexp.MustCompile(
	`^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?(:[1-9][0-9]{0,4})?$`)

func validEgress(s string) bool {
	return s == egressAll || s == egressNone || hostForm.MatchString(s)
}

func validDoor(s string) bool {
	a, err := netip.ParseAddrPort(s)
	return err == nil && a.Port() > 0 && a.Addr().Zone() == ""
}

func validProxyURL(s string) bool {
	u, err := url.Parse(s)
	return s == "" || err == nil && u.Scheme == "http" && u.Hostname() != "" && u.Port() != "" && u.User == nil &&
		u.Path == ""
}

func validVariable(s string) bool { return envForm.MatchString(s) && !strings.HasPrefix(s, "RETAKE_") }

func validBusURL(s string) bool {
	return s == "" || !slices.ContainsFunc(strings.Split(s, ","), func(one string) bool {
		u, err := url.Parse(strings.TrimSpace(one))
		return err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls"
	})
}

func validListenAddr(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || s == "auto"
}

func validHTTPListen(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, numErr := strconv.ParseUint(port, 10, 16)
	return s == "" || err == nil && numErr == nil && (n > 0 || host != "") && !strings.ContainsAny(host, " /")
}

func validRepository(s string) bool {
	_, name, _ := strings.Cut(s, "/")
	return repoForm.MatchString(s) && name != "." && name != ".." && !strings.HasSuffix(name, ".git")
}

func validAPIURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		u.RawQuery == "" && u.Fragment == ""
}

func validOTLPEndpoint(s string) bool { return s == "" || validAPIURL(s) }

func validTokenEnv(s string) bool { return s == "" || envForm.MatchString(s) && !looksRandom(s) }

// looksRandom reports whether the text is probably a token, entered by mistake instead of a variable name. A token can
// look like a variable name, so validTokenEnv needs this heuristic.
func looksRandom(s string) bool {
	return len(s) >= 20 && strings.ContainsFunc(s, unicode.IsDigit) && strings.ContainsFunc(s, unicode.IsLower)
}

// validBranch applies the rules of git-check-ref-format(1).
func validBranch(s string) bool {
	return len(s) <= 100 && s != "@" && s != "HEAD" && !strings.ContainsAny(s, " ~^:?*[\\\x7f") &&
		!strings.Contains(s, "..") && !strings.Contains(s, "@{") && !strings.HasSuffix(s, ".") &&
		!strings.HasPrefix(s, "-") &&
		!strings.ContainsFunc(s, unicode.IsControl) && !slices.ContainsFunc(strings.Split(s, "/"),
		func(part string) bool {
			return part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
		})
}

// faultOfGlob returns a description of the error in a glob, or "" for a valid glob.
func faultOfGlob(glob string) string {
	if err := worktree.Check(glob); err != nil {
		return err.Error()
	}
	return ""
}
