package gitwords

import "strings"

// LimitAnswer reads the trace that git writes with GIT_TRACE_CURL. It reports whether the server's last response stated
// a rate limit, and returns the response's Retry-After header. A 403 without this header means a missing permission.
func LimitAnswer(trace string) (retryAfter string, limited bool) {
	status := ""
	for line := range strings.Lines(trace) {
		_, header, is := strings.Cut(line, "<= Recv header: ")
		if !is {
			continue
		}
		if first, rest, _ := strings.Cut(header, " "); strings.HasPrefix(first, "HTTP/") {
			status, retryAfter = rest[:min(len(rest), 3)], ""
			continue
		}
		if name, value, _ := strings.Cut(header, ":"); strings.EqualFold(name, "Retry-After") {
			retryAfter = strings.TrimSpace(value)
		}
	}
	return retryAfter, status == "429" || status == "403" && retryAfter != ""
}
