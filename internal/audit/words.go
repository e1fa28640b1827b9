package audit

// triggerWords say what made a task leave a state, for people. One that is not there is told as it is.
var triggerWords = map[string]string{
	"slot free, resource open":               "There was a free slot, so the issue was claimed",
	"claim won":                              "The claim was won; a worker was started",
	"claim lost, or no longer eligible":      "Somebody else had the issue, or it was not to be worked on any more",
	"closed, unlabelled or taken":            "The issue was closed, lost its label or was taken by somebody else",
	"due, slot free, re-read and still ours": "The wait was over and the issue still ours; a worker was started",
	"hello of this attempt":                  "The worker said hello",
	"start failed":                           "The worker could not be started",
	"no hello in time":                       "The worker did not say hello in time",
	"another protocol":                       "The worker speaks another version of the protocol",
	"final report":                           "The worker sent its final report",
	"container gone":                         "The worker was gone, without a word",
	"watchdog":                               "The attempt took too long",
	"a budget is overspent":                  "A budget was overspent",
	"TTL passed":                             "The worker was silent for too long; it was asked",
	"heartbeat or probe answered":            "The worker was heard again",
	"second deadline":                        "The worker stayed silent and was given up",
	"confirmed gone: ok":                     "All stages had passed; the work was handed in",
	"confirmed gone: withdrawn":              "The worker was gone; the issue is not ours any more",
	"verdict: another attempt":               "Another attempt was decided on",
	"verdict: ask a human":                   "A person was asked",
	"delivered":                              "The work was delivered",
	"verdict: give the issue back":           "The issue was given back",
	"a human answered":                       "A person answered",
	"the incident healed":                    "The incident had healed",
	"claim without progress":                 "The claim made no progress and was given up",
}

// sentence tells a transition.
func sentence(t Transition) string {
	words, ok := triggerWords[t.On]
	if !ok {
		words = t.On
	}
	return words + orNothing(": %s", t.Why) + " (" + t.From + " → " + t.To + ")"
}
