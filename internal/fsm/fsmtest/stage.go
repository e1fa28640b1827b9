package fsmtest

import (
	"math"
)

// choices makes all choices of a world, from a seed or from a recording. Past the end of a recording, every choice is
// 0. Zero is always the harmless choice, so replacing choices with 0 makes a world simpler. Each site has a separate
// track, so removing one fault does not shift the choices of other sites.
type choices struct {
	state        [sites]uint64 // state of each track's generator
	choiceTracks *choiceTracks // the recording to replay, or nil for random choices
	at           [sites]int
	record       *choiceTracks // receives the chosen values, unless nil
}

type choiceTracks [sites][]uint32

func newChoices(seed uint64) *choices {
	t := &choices{}
	for i := range t.state {
		t.state[i] = mix(seed + uint64(i)*0x9E3779B97F4A7C15)
	}
	return t
}

func replayedChoices(t *choiceTracks) *choices {
	return &choices{choiceTracks: t, record: &choiceTracks{}}
}

// mix is SplitMix64's finaliser.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// pick chooses a number from 0 to n-1. n must be at least 1.
func (t *choices) pick(s site, n int) int {
	var v uint32
	if t.choiceTracks != nil {
		if i := t.at[s]; i < len(t.choiceTracks[s]) {
			v = min(t.choiceTracks[s][i], uint32(n-1))
		}
		t.at[s]++
	} else {
		t.state[s] += 0x9E3779B97F4A7C15
		v = uint32((mix(t.state[s]) >> 32) * uint64(n) >> 32)
	}
	if t.record != nil {
		t.record[s] = append(t.record[s], v)
	}
	return int(v)
}

// chance returns true with a probability of permille/1000. If permille is 0, it does not consume a choice.
func (t *choices) chance(s site, permille int) bool {
	if permille == 0 {
		return false
	}
	if t.choiceTracks != nil {
		return t.pick(s, 2) == 1
	}
	t.state[s] += 0x9E3779B97F4A7C15
	yes := int((mix(t.state[s])>>32)*1000>>32) < permille
	if t.record != nil {
		v := uint32(0)
		if yes {
			v = 1
		}
		t.record[s] = append(t.record[s], v)
	}
	return yes
}

// site identifies a kind of choice.
type site uint8

// The sites. The second group contains faults, which can be stopped.
const (
	atShape   site = iota // the size of the world and its faults
	atDelay               // durations
	atLife                // the behaviour of a worker
	atOutcome             // the result of its work
	atHuman               // the actions of people
	atComment             // their comments
	atReview              // their reviews

	busDrop // the first fault
	busTwice
	busLate
	busCut
	streamTwice
	streamLate
	workerDies
	workerStalls
	workerNotes
	workerLies
	workerReturns
	workerAgain
	runtimeFails
	runtimeHalf
	runtimeUnkilled
	runtimeLies
	runtimeBehind
	githubLimit
	githubFails
	githubHalf
	githubRefuses
	githubTaken
	nothingDone
	baseMoves
	baseConflicts
	workChanges
	checksFail
	humanMeddles
	operatorSays
	journalFails
	journalSilent
	crashAtAppend
	crashAtEffect
	crashHalf
	leaderStale
	staleHears
	clockSkewed
	asleep
	outcomeTwice
	limitReported
	signalled
	outage
	limitStated
	limitLifted
	leaseFails
	pushesFail
	githubAway
	directorEnds
	atStanding   // the order of the queue
	atRequest    // the operator's commands about tasks
	settingsRead // two more faults, placed here so that recorded choices keep their tracks
	signsWait
	atCluster // the placement in a cluster
	nodeLost  // two more faults
	clusterEnds
	atPrograms // the search for stage programs
	atBacklog  // the presence of a backlog
	atContract // contracts and settings of repositories
	sites

	faults    = busDrop    // the first fault
	faultsEnd = atStanding // one past the last fault of the group
)

// siteInfo describes a site. The field most is its maximum fault rate, per thousand.
type siteInfo struct {
	name string
	most int
}

var siteTable = [sites]siteInfo{
	atShape: {"shape", 0}, atDelay: {"delay", 0}, atLife: {"life", 0}, atOutcome: {"outcome", 0}, atHuman: {"human", 0},
	atComment: {"comment", 0}, atReview: {"review", 0},
	busDrop: {"bus drops a message", 150}, busTwice: {"bus duplicates a message", 150},
	busLate: {"bus delays a message", 150},
	busCut:  {"worker is cut off from the bus", 30}, streamTwice: {"stream delivers a report again", 200},
	streamLate: {"stream delivers a report late", 200},
	workerDies: {"worker dies", 40}, workerStalls: {"worker stalls", 40}, workerNotes: {"worker sends a notice", 100},
	workerLies: {"worker reports its end more than once", 200}, workerReturns: {"worker outlives its container", 150},
	workerAgain:  {"worker says hello again", 100},
	runtimeFails: {"runtime fails", 150}, runtimeHalf: {"runtime succeeds but reports failure", 150},
	runtimeUnkilled: {"a kill has no effect", 200}, runtimeLies: {"runtime lists a wrong state", 60},
	runtimeBehind: {"container is removed by somebody else", 20},
	githubLimit:   {"GitHub limits", 100}, githubFails: {"GitHub fails", 150},
	githubHalf:    {"GitHub succeeds but its response is lost", 150},
	githubRefuses: {"GitHub refuses permanently", 30}, githubTaken: {"another client claims the issue", 50},
	nothingDone: {"nothing to deliver", 100},
	baseMoves:   {"the base branch advances", 200}, baseConflicts: {"the work conflicts with the base branch", 100},
	workChanges: {"the checkout changes after its validation", 400}, checksFail: {
		"a pull request check fails",
		300,
	},
	humanMeddles: {"somebody closes or relabels the issue", 300}, operatorSays: {"the operator issues a command", 300},
	journalFails: {"append fails", 20}, journalSilent: {"append succeeds, but its response is lost", 20},
	crashAtAppend: {"crash at an append", 20}, crashAtEffect: {"crash at an effect", 20},
	crashHalf:   {"an effect of a dead director was carried out", 500},
	leaderStale: {"a second director takes over", 80}, staleHears: {"the stale director gets the event", 500},
	clockSkewed: {"clocks differ", 500},
	asleep:      {"the director is suspended", 60}, outcomeTwice: {"an outcome arrives twice", 50},
	limitReported: {"a limit is reported", 200},
	signalled:     {"the director is stopped", 20}, outage: {"every attempt fails the same way for a while", 200},
	limitStated: {"a worker reports a model's limit", 300}, limitLifted: {"an operator lifts a cooldown", 200},
	leaseFails: {"the leader cannot renew its lease", 80}, pushesFail: {"pushes fail for a while", 200},
	githubAway: {"GitHub is unavailable for a while", 200}, directorEnds: {
		"the director ends an attempt for a violation",
		100,
	},
	atStanding: {"order", 0}, atRequest: {"request", 0},
	settingsRead: {"the configuration is reloaded", 300}, signsWait: {"a sign of life reaches the machine late", 500},
	atCluster: {"cluster", 0}, nodeLost: {"a worker's node is lost", 60},
	clusterEnds: {"the cluster evicts a worker", 40},
	atPrograms:  {"programs", 0}, atBacklog: {"backlog", 0}, atContract: {"contracts", 0},
}

// eventQueue is a heap of future events, ordered by time and then by insertion.
type eventQueue struct {
	entries []scheduledEvent
	order   uint64
}

type scheduledEvent struct {
	at    int64
	order uint64
	do    func()
}

const never = math.MaxInt64

func (c *eventQueue) first() int64 {
	if len(c.entries) == 0 {
		return never
	}
	return c.entries[0].at
}

func (a scheduledEvent) before(b scheduledEvent) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (c *eventQueue) add(at int64, do func()) {
	c.order++
	c.entries = append(c.entries, scheduledEvent{at, c.order, do})
	e := c.entries
	for i := len(e) - 1; i > 0; {
		up := (i - 1) / 2
		if !e[i].before(e[up]) {
			return
		}
		e[i], e[up] = e[up], e[i]
		i = up
	}
}

func (c *eventQueue) take() func() {
	e := c.entries
	do, last := e[0].do, len(e)-1
	e[0], e[last] = e[last], scheduledEvent{}
	e = e[:last]
	c.entries = e
	for i := 0; ; {
		least := i
		for _, down := range [...]int{2*i + 1, 2*i + 2} {
			if down < last && e[down].before(e[least]) {
				least = down
			}
		}
		if least == i {
			return do
		}
		e[i], e[least] = e[least], e[i]
		i = least
	}
}
