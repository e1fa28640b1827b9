package attack

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
)

// planOf is where a worker finds its plan.
func planOf(s container.Spec) []byte { return s.Stdin }

// clientOptions are those of the worker that was given a plan.
func clientOptions(p wire.Plan) bus.ClientOptions {
	b := p.Bus
	return bus.ClientOptions{
		URL: b.URL, User: b.User, Password: b.Password, Prefix: b.Prefix, WorkerID: p.WorkerID, Key: p.SignKey, MaxMessageBytes: b.MaxMessageBytes,
	}
}

// stolen is what a thief of the credential signs in with.
func stolen(p wire.Plan) []nats.Option {
	return []nats.Option{nats.UserInfo(p.Bus.User, p.Bus.Password), nats.CustomInboxPrefix(inbox(p))}
}

// inbox is where the worker's answers come.
func inbox(p wire.Plan) string { return wire.ProvenInbox(p.WorkerID, p.Bus.Password) }

// connectLine signs in by hand; nonce is what the server's INFO asks to be signed.
func connectLine(p wire.Plan, _ string) string {
	data, _ := json.Marshal(map[string]any{"user": p.Bus.User, "pass": p.Bus.Password, "verbose": false, "pedantic": false, "headers": true})
	return "CONNECT " + string(data) + "\r\n"
}

// budgetSubject is where a worker asks for leases.
func budgetSubject(s wire.Subjects, op string, _ wire.Plan) string { return s.Budget(op) }

// operator reads the operator's credential: where the bus is, and how a person signs in.
func operator(data []byte) (url, prefix string, options []nats.Option, err error) {
	var o struct{ URL, User, Password, Prefix string }
	err = json.Unmarshal(data, &o)
	return o.URL, o.Prefix, []nats.Option{nats.UserInfo(o.User, o.Password)}, err
}

// forged are credentials that somebody makes of what he has and knows.
func forged(mine, theirs wire.Plan) [][]nats.Option {
	pair := func(user, password string) []nats.Option { return []nats.Option{nats.UserInfo(user, password)} }
	return [][]nats.Option{
		nil, pair("", ""), pair("@director", mine.Bus.Password), pair("@journal", mine.Bus.Password), pair("@operator", mine.Bus.Password),
		pair(theirs.WorkerID, mine.Bus.Password), pair(mine.WorkerID, ""), pair("sys", "sys"), pair("admin", "s3cr3t"),
		{nats.Token(mine.Bus.Password)},
	}
}

// forgeries are successes that the worker did not sign: unsigned, signed with made-up keys, with a signature of another message.
func (b *battle) forgeries() (all [][]byte) {
	for _, key := range [][]byte{nil, make([]byte, 32), []byte(b.me.Plan.Bus.Password), []byte(b.me.id), b.neighbour.Plan.SignKey} {
		data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: b.me.id, Key: key}, 1, time.Now(), b.me.result())
		if err != nil {
			panic(err)
		}
		all = append(all, data)
	}
	unsigned := string(all[0])
	for _, signature := range []string{`"signature":""`, `"signature":null`, `"signature":"AAAA"`, `"signature":["",""]`} {
		all = append(all, []byte(unsigned[:len(unsigned)-1]+","+signature+"}"))
	}
	return all
}

// signedWith makes a report of a worker with the key of another plan.
func signedWith(p wire.Plan, worker string, body wire.Payload) ([]byte, error) {
	return wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: worker, Key: p.SignKey}, 1, time.Now(), body)
}
