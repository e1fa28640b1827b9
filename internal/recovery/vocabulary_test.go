package recovery

import "testing"

func TestErrorTypesMapBothWays(t *testing.T) {
	for _, a := range Reasons {
		if r, ok := ReasonOf(ErrorType(a.Reason)); !ok || r != a.Reason {
			t.Errorf("%s is spoken as %q and understood as %s", a.Reason, ErrorType(a.Reason), r)
		}
	}
	for _, tc := range []struct {
		word   string
		reason Reason
	}{
		{"github_rate_limited", RateLimited},
		{"github_mcp_timeout", Timeout},
		{"agent_bus_disconnect", BusDisconnect},
		{"docker_exit_nonzero", Unknown},
		{"build_failed", BuildFailed},
		{"tests_failed", TestsFailed},
		{"invalid_config", InvalidConfig},
		{"missing_prereq", ToolNotFound},
	} {
		if r, ok := ReasonOf(tc.word); !ok || r != tc.reason {
			t.Errorf("%s means %s, want %s", tc.word, r, tc.reason)
		}
	}
	if r, ok := ReasonOf("gremlins"); ok || r != Unknown {
		t.Errorf("gremlins means %s, %v", r, ok)
	}
}

// TestFlagsAgreeWithClassAndPolicy: what time heals is transient; what the policy does not try again goes to a human.
func TestFlagsAgreeWithClassAndPolicy(t *testing.T) {
	p := directorPolicy(3, DefaultBackoff)
	for _, a := range Reasons {
		f := Flags(a.Reason)
		again := p.Tries(a.Reason)
		if f.ErrorType != ErrorType(a.Reason) || f.Transient != (a.Class == Transient) || f.Retry != again || f.Escalate == again {
			t.Errorf("%s: %+v", a.Reason, f)
		}
		if a.Class == Transient && !f.Retry {
			t.Errorf("%s: transient, and never retried", a.Reason)
		}
	}
	if f := Flags(TestsFailed); f != (Claim{ErrorType: "tests_failed", Escalate: true}) {
		t.Errorf("the seed's own example: %+v", f)
	}
}
