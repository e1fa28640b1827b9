package recovery

import (
	"strings"
	"testing"

	"retake/internal/recovery/circumstances/recorded"
)

// A text that asks for a change of the configuration names the file, and a restart if one is necessary. The comment
// comes after the change.
func TestTheCommentComesAfterTheAction(t *testing.T) {
	c := Case{
		Reason: OOMKilled, Stage: "CODE", Happened: recorded.Circumstances(t, "exit-memory"), File: "retake.toml",
		AtOnce: func(key string) bool { return key == "containers.memory" },
	}
	want := "Raise `containers.memory`, now `2GiB` (the default), in the director's configuration " +
		"`retake.toml` (takes effect on save; running workers continue), or make the issue smaller."
	if w := c.Words(); w.Ask != want || w.Invite != "Once this is done, comment:" || w.Command != "/agent resume" ||
		w.Alone != want+" Once this is done, comment `/agent resume`." {
		t.Errorf("%+v, want %s", w, want)
	}
	c.AtOnce = func(string) bool { return false }
	if w := c.Words(); !strings.Contains(w.Ask, "takes effect when the director restarts") {
		t.Errorf("%+v lacks the restart", w)
	}
	c = Case{Reason: Overloaded, Stage: "CODE", Alike: 3}
	if w := c.Words(); w.Invite != "To let Retake wait and try again, comment:" || strings.Contains(w.Ask, "fix") {
		t.Errorf("%+v: asks for more than the comment", w)
	}
	c = Case{Reason: AuthError, Stage: "CODE", Alike: 3}
	if w := c.Words(); !strings.Contains(w.Alone, " 3 issues failed in this way, so one fix helps them all. Once") {
		t.Errorf("%+v lacks the other issues", w)
	}
}
