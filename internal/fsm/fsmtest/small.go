package fsmtest

import "fmt"

// Small is a world small enough to be searched whole: every order of everything that can happen in it, with so many
// faults of each kind.
type Small struct {
	Name    string
	Issues  int // 1 or 2
	Workers int
	Retries int // director.max_retries

	Drops, Doubles int  // messages lost, and delivered twice
	Failures       int  // effects that fail: before they were carried out, or after
	Deaths         int  // workers that end without a report
	Bad            int  // reports of a failure
	Crashes        int  // of the director: at any moment, an append under way lands or not
	Stale          int  // directors that are replaced and do not notice
	Silence        int  // deadlines that pass although something else could happen
	Reviews        int  // reviews, checks and merges of pull requests; without any, work is delivered as a branch
	Words          int  // commands in comments
	Clean          bool // work is validated in a clean container
	Cluster        bool // attempts wait for room, with checkouts of their own
	Mounts         bool // or on the director's
	Lost, Back     int  // nodes that are lost, and of these that come back
}

// left is what may still go wrong.
type faultsLeft struct {
	drops, doubles, failures, deaths, bad, crashes, stale, silence, reviews, words, lost, back int
}

// SmallWorlds are searched by CI. The order of messages, reports and appends is free in all of them.
var SmallWorlds = []Small{
	{Name: "one issue, bus", Issues: 1, Workers: 1, Retries: 2, Drops: 1, Doubles: 1, Bad: 1},
	{Name: "one issue, effects fail", Issues: 1, Workers: 1, Retries: 2, Failures: 2, Bad: 1},
	{Name: "one issue, a crash", Issues: 1, Workers: 1, Retries: 2, Deaths: 1, Bad: 1, Crashes: 1},
	{Name: "one issue, a stale leader", Issues: 1, Workers: 1, Retries: 2, Doubles: 1, Stale: 1},
	{Name: "one issue, both", Issues: 1, Workers: 1, Retries: 2, Bad: 1, Crashes: 1, Stale: 1},
	{Name: "one issue, silence", Issues: 1, Workers: 1, Retries: 2, Drops: 1, Silence: 2},
	{Name: "one issue, all", Issues: 1, Workers: 1, Retries: 2, Drops: 1, Doubles: 1, Bad: 1, Crashes: 1, Stale: 1},
	{Name: "one issue, reviews", Issues: 1, Workers: 1, Retries: 2, Reviews: 3, Crashes: 1},
	{Name: "one issue, a command", Issues: 1, Workers: 1, Retries: 2, Bad: 1, Words: 1},
	{Name: "one issue, a command, a crash", Issues: 1, Workers: 1, Retries: 2, Bad: 1, Words: 1, Crashes: 1},
	{Name: "one issue, two commands", Issues: 1, Workers: 1, Retries: 2, Bad: 1, Words: 2},
	{Name: "one issue, all of people", Issues: 1, Workers: 1, Retries: 2, Reviews: 2, Words: 1},
	{Name: "one issue, a review, stale", Issues: 1, Workers: 1, Retries: 2, Reviews: 1, Stale: 1},
	{Name: "one issue, a command, stale", Issues: 1, Workers: 1, Retries: 2, Words: 1, Stale: 1},
	{Name: "one issue, validated cleanly", Issues: 1, Workers: 1, Retries: 2, Bad: 1, Crashes: 1, Clean: true},
	{Name: "one issue, validated cleanly, stale", Issues: 1, Workers: 1, Retries: 2, Stale: 1, Clean: true},
	{Name: "one issue, a cluster", Issues: 1, Workers: 1, Retries: 2, Bad: 1, Crashes: 1, Silence: 1, Cluster: true},
	{Name: "one issue, a lost node", Issues: 1, Workers: 1, Retries: 2, Crashes: 1, Cluster: true, Lost: 1},
	{Name: "one issue, a lost node, stale", Issues: 1, Workers: 1, Retries: 2, Stale: 1, Cluster: true, Lost: 1},
	{
		Name: "one issue, a lost node, a mount", Issues: 1, Workers: 1, Retries: 2, Crashes: 1, Cluster: true,
		Mounts: true, Lost: 1, Back: 1,
	},
	{Name: "two issues, bus", Issues: 2, Workers: 2, Retries: 2, Drops: 1, Doubles: 1, Bad: 1},
	{Name: "two issues, three attempts", Issues: 2, Workers: 2, Retries: 2, Bad: 2},
	{Name: "two issues, a crash", Issues: 2, Workers: 2, Retries: 2, Crashes: 1},
	{Name: "two issues, all", Issues: 2, Workers: 2, Retries: 2, Drops: 1, Doubles: 1, Bad: 2, Crashes: 1, Stale: 1},
}

// node is a state of a small world.
type node struct {
	w        *world
	messages []message
	left     faultsLeft
}

// message is on its way to a director.
type message struct {
	hello  bool
	worker string
}

// step is one thing that happens. What a and b mean depends on the kind.
type step struct {
	kind happening
	a, b uint8
}

type happening uint8

const (
	lands      happening = iota // an append under way, of the leader (a = 0) or the stale director (1)
	isDone                      // an effect under way: b-th of a
	fails                       // the same, failed
	half                        // carried out, and told to have failed
	says                        // a container's worker says hello
	succeeds                    // its work is done
	goesWrong                   // or not
	dies                        // it ends without a word
	arrives                     // a message: a-th, at the leader (b = 0) or the stale director
	arrives2                    // and stays on its way
	isLost                      // a message
	isRead                      // a report: a-th, at the leader or the stale director
	polled                      // an issue is looked at: a-th
	listed                      // the runtime's list is read
	passes                      // time, up to the next deadline
	crashes                     // the leader; an append under way lands (a = 1) or not
	replaces                    // another director takes over
	isReviewed                  // a pull request: a-th issue's, in the b-th way
	speaks                      // somebody, on the a-th issue, the b-th command
	looked                      // the leader, at the pull request of the a-th issue
	listens                     // the leader, to what is said on the a-th issue
	isPlaced                    // a container finds room
	isCutOff                    // its node is lost
	isBack                      // and comes back
	happenings
)

func (s step) String() string { return fmt.Sprintf("%s %d %d", happeningNames[s.kind], s.a, s.b) }

var happeningNames = [happenings]string{
	lands: "append lands", isDone: "effect ends", fails: "effect fails", half: "effect is done and fails",
	says:     "worker says hello",
	succeeds: "worker succeeds", goesWrong: "worker fails", dies: "worker dies", arrives: "message arrives",
	arrives2: "message arrives, and again",
	isLost:   "message is lost", isRead: "report arrives", polled: "issue is seen", listed: "list is read",
	passes:  "time passes",
	crashes: "director crashes", replaces: "director is replaced", isReviewed: "pull request is reviewed",
	speaks: "somebody speaks",
	looked: "pull request is looked at", listens: "comments are read",
	isPlaced: "container finds room", isCutOff: "node is lost", isBack: "node is back",
}
