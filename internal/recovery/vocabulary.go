package recovery

import "slices"

// words are the founding harness's error types (seed 002) and what they mean here. A word that says less than our
// reason, or names one service where the reason names none, is understood but not spoken.
var words = []struct {
	errorType string
	reason    Reason
	spoken    bool
}{
	{"github_rate_limited", RateLimited, false}, // a worker meets the limits of models, never GitHub's: it holds no token
	{"github_mcp_timeout", Timeout, false},
	{"agent_bus_disconnect", BusDisconnect, true},
	{"docker_exit_nonzero", Unknown, true}, // "depends on the exit code": by itself it says nothing
	{"build_failed", BuildFailed, true},
	{"tests_failed", TestsFailed, true},
	{"invalid_config", InvalidConfig, true},
	{"missing_prereq", ToolNotFound, true},
}

// ErrorType returns the error_type for a reason: the founding harness's word where one says the same, else the
// reason itself. ReasonOf takes it back.
func ErrorType(r Reason) string {
	for _, w := range words {
		if w.spoken && w.reason == r {
			return w.errorType
		}
	}
	return string(r)
}

// ReasonOf returns what an error_type means: one of the founding harness's eight, or a reason. Anything else is
// Unknown, ok false.
func ReasonOf(errorType string) (r Reason, ok bool) {
	for _, w := range words {
		if w.errorType == errorType {
			return w.reason, true
		}
	}
	about, ok := Describe(Reason(errorType))
	return about.Reason, ok
}

// retried are the reasons that the default policy tries again; a worker has no other policy to go by.
var retried = func() (rs []Reason) {
	p, _ := Preset("director")
	for _, a := range Reasons {
		if p.Tries(a.Reason) {
			rs = append(rs, a.Reason)
		}
	}
	return rs
}()

// Flags returns what a worker claims of a failure for this reason: the word and the three flags.
func Flags(r Reason) Claim {
	about, _ := Describe(r)
	again := slices.Contains(retried, about.Reason)
	return Claim{ErrorType: ErrorType(about.Reason), Transient: about.Class == Transient, Retry: again, Escalate: !again}
}
