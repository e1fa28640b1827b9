// Package crashpoint names the moments at which a director may be killed worst: around every append to the
// journal, every effect, and the calls outside of which an effect is made.
//
// In ordinary builds Reached does nothing. With the build tag crashpoints it ends the process with SIGKILL at
// the point that the environment names:
//
//	RETAKE_CRASH_AT=effect/claim/after      the first time
//	RETAKE_CRASH_AT=github/write/after#3    the third time
//
// `make chaos CRASHPOINTS=1` goes through the table, kills the director at each point once and again while it
// recovers, and judges what became of the work.
package crashpoint

// Variable names the point at which the process ends, in builds with the tag.
const Variable = "RETAKE_CRASH_AT"

// Points are all names that Reached is called with.
var Points = append([]string{
	"append/before", "append/after", // the journal
	"github/write/before", "github/write/after", // one request that changes something
	"git/push/before", "git/push/after",
	"container/create/after", "container/start/after", "container/remove/before", "container/remove/after", // Docker's
	"process/start/before", "process/start/after",
}, effects(
	"claim", "recheck", "start", "stop", "deliver", "escalate", "release", "remind", "welcome", "refuse", "fence",
	"probe", "remove",
	"read_issue", "progress", "read_answers", "read_review", "reply", "reclaim", "tidy", "pause", "resume", "forget",
)...)

// effects are the points around what the director does outside, by kind: before it, and after it, when its
// outcome is not in the journal yet.
func effects(kinds ...string) (points []string) {
	for _, k := range kinds {
		points = append(points, "effect/"+k+"/before", "effect/"+k+"/after")
	}
	return points
}
