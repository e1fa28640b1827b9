package fsm

import (
	"testing"
	"time"
)

// If an attempt began without its own validation, another attempt validates its work, even if the operator has set
// worker.validate to "inside" in the meantime.
func TestValidationThatWasLeftToAnotherIsDue(t *testing.T) {
	t.Parallel()
	for name, accepted := range map[string]bool{
		"while the worker was at it": false,
		"while it was being stopped": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig()
			cfg.CleanValidation = true
			s := &stage{t: t, cfg: cfg, m: New(cfg), now: epoch, ended: map[IssueKey]State{}}
			s.d = NewDriver(s.m, 0, "p0")
			say := func(lines ...string) {
				for _, line := range lines {
					s.event("> " + line)
				}
			}
			say("0s boot run-1", "1s issues 21:task", "2s done k21-0/claim", "3s done k21-1/start", "4s hello k21-1")
			if accepted {
				say("5s report k21-1 r1 ok")
			}
			s.cfg.CleanValidation = false
			say("6s crash", "7s boot run-2", "8s hello k21-1")
			if !accepted {
				say("9s report k21-1 r1 ok")
			}
			say("10s gone k21-1/stop exit=0")
			if got := s.ended[issueKey("21")]; got != Backoff {
				t.Fatalf("unvalidated work is %s", got)
			}
			say("11s done k21-1/recheck", "12s done k21-2/start", "13s hello k21-2", "14s report k21-2 r2 ok",
				"15s gone k21-2/stop exit=0")
			if got := s.ended[issueKey("21")]; got != Delivering {
				t.Errorf("work that the second attempt has validated in its own container is %s", got)
			}
			if at := s.now.Sub(epoch); at != 15*time.Second {
				t.Errorf("at %s", at)
			}
		})
	}
}
