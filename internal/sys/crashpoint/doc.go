// Package crashpoint lists the worst points at which a director can be killed: around every append to the journal,
// every effect, and the calls that perform an effect.
//
// In ordinary builds Reached does nothing. With the build tag crashpoints it kills the process with SIGKILL at the
// point selected in the environment:
//
//	RETAKE_CRASH_AT=effect/claim/after      the first time
//	RETAKE_CRASH_AT=github/write/after#3    the third time
//
// `make chaos CRASHPOINTS=1` kills the director at each point in the table, during work and during recovery, and checks
// the resulting work.
package crashpoint

// Variable is the environment variable that names the point at which the process ends, in builds with the tag.
const Variable = "RETAKE_CRASH_AT"

// Points lists all names that callers pass to Reached.
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

// effects returns the points before and after the external action of each kind of effect. At the point after an action,
// the journal does not contain the outcome yet.
func effects(kinds ...string) (points []string) {
	for _, k := range kinds {
		points = append(points, "effect/"+k+"/before", "effect/"+k+"/after")
	}
	return points
}
