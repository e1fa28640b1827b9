package wire

import (
	"fmt"
	"strings"
)

// Channel is the last token of a worker's subject.
type Channel string

// The channels of a worker.
const (
	ChannelHello     Channel = "hello"
	ChannelHeartbeat Channel = "heartbeat"
	ChannelProgress  Channel = "progress"
	ChannelError     Channel = "error"
	ChannelResult    Channel = "result"
)

// maxIDBytes is the maximum length of a worker id, which is also a subject token, a user name and a container name.
const maxIDBytes = 128

// DefaultPrefix is the default of agent_bus.prefix.
const DefaultPrefix = "retake.v1"

// Subjects builds and parses every subject of one bus.
type Subjects struct{ Prefix string }

// Worker returns the subject on which a worker publishes messages of a channel.
func (s Subjects) Worker(worker string, c Channel) string {
	return s.Prefix + ".worker." + worker + "." + string(c)
}

// AllWorkers matches one channel of every worker.
func (s Subjects) AllWorkers(c Channel) string { return s.Worker("*", c) }

// WorkerTree matches all messages that one worker publishes about itself.
func (s Subjects) WorkerTree(worker string) string { return s.Prefix + ".worker." + worker + ".>" }

// Published lists the subjects that one worker may publish on. The list contains no wildcards, because the quota would
// not count messages on subjects that the director does not read.
func (s Subjects) Published(worker string) []string {
	var all []string
	for _, c := range []Channel{ChannelHello, ChannelHeartbeat, ChannelProgress, ChannelError, ChannelResult} {
		all = append(all, s.Worker(worker, c))
	}
	for _, operation := range []string{BudgetOpAcquire, BudgetOpRelease, BudgetOpReport} {
		all = append(all, s.Budget(operation, worker))
	}
	return all
}

// Control returns the subject of the director's commands to one worker.
func (s Subjects) Control(worker string) string { return s.Prefix + ".control." + worker }

// Snapshot returns the subject of project_state_snapshot.v1, for publications and requests.
func (s Subjects) Snapshot() string { return s.Prefix + ".snapshot" }

// Operations of the lease service.
const (
	BudgetOpAcquire = "acquire"
	BudgetOpRelease = "release"
	BudgetOpReport  = "report"
)

// Budget returns the subject of one operation of the lease service for a worker. "*" matches all operations or workers.
func (s Subjects) Budget(operation, worker string) string {
	return s.Prefix + ".budget." + operation + "." + worker
}

// OfBudget returns the subject for a worker's request to the lease service, or false if the payload is not such a
// request.
func (s Subjects) OfBudget(p Payload, worker string) (string, bool) {
	row, _ := rowOf(p.MessageType())
	operation, ok := strings.CutPrefix(strings.TrimSuffix(row.Subject, ".<id>"), "budget.")
	return s.Budget(operation, worker), ok
}

// BudgetOp returns the operation in a subject of the lease service.
func (s Subjects) BudgetOp(subject string) string {
	operation, _, _ := strings.Cut(strings.TrimPrefix(subject, s.Prefix+".budget."), ".")
	return operation
}

// InboxPrefix is the prefix of every worker's inbox.
const InboxPrefix = "_INBOX_"

// Inbox returns the prefix of a worker's inboxes, which other workers may not read.
func Inbox(worker string) string { return InboxPrefix + worker }

// Journal returns the subject of the director's journal.
func (s Subjects) Journal() string { return s.Prefix + ".journal" }

// Dead returns the subject of the dead letters with one cause.
func (s Subjects) Dead(c Cause) string { return s.Prefix + ".dead." + string(c) }

// ParseWorker splits a worker's subject. ok is false for any other subject.
func (s Subjects) ParseWorker(subject string) (worker string, c Channel, ok bool) {
	rest, found := strings.CutPrefix(subject, s.Prefix+".worker.")
	if !found {
		return "", "", false
	}
	worker, channel, found := strings.Cut(rest, ".")
	if !found || CheckID(worker) != nil {
		return "", "", false
	}
	switch c = Channel(channel); c {
	case ChannelHello, ChannelHeartbeat, ChannelProgress, ChannelError, ChannelResult:
		return worker, c, true
	default:
		return "", "", false
	}
}

// CheckID checks that a worker id can be a subject token: 1 to 128 ASCII letters, digits, `-` and `_`.
func CheckID(id string) error {
	if id == "" || len(id) > maxIDBytes {
		return fmt.Errorf("wire: worker id has %d bytes: want 1 to %d", len(id), maxIDBytes)
	}
	if i := strings.IndexFunc(id, notInToken); i >= 0 {
		return fmt.Errorf("wire: worker id %q: want ASCII letters, digits, - and _ only", id)
	}
	return nil
}

// CheckPrefix checks that a prefix consists of valid tokens joined by dots.
func CheckPrefix(prefix string) error {
	for _, token := range strings.Split(prefix, ".") {
		if token == "" || strings.IndexFunc(token, notInToken) >= 0 {
			return fmt.Errorf("wire: subject prefix %q: want tokens of ASCII letters, digits, - and _, joined by dots",
				prefix)
		}
	}
	return nil
}

func notInToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
		return false
	default:
		return true
	}
}
