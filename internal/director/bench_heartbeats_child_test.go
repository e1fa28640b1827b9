package director

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

// startChild runs this test's program again, to play the workers.
func (b *beats) startChild(srv *server.Server) {
	b.t.Helper()
	user, err := srv.Keys().Gatekeeper()
	must(b.t, err)
	var file string
	b.sentAt, file = newSentTimes(b.t, b.workers)
	order, err := json.Marshal(beatsOrder{
		URL: srv.URL("127.0.0.1"), JWT: user.JWT, Seed: user.Seed,
		Workers: b.workers, Sent: file,
	})
	must(b.t, err)
	child := exec.Command(os.Args[0], "-test.run=^TestBenchHeartbeats$")
	child.Env = append(os.Environ(), beatsEnv+"="+string(order))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	must(b.t, err)
	out, err := child.StdoutPipe()
	must(b.t, err)
	must(b.t, child.Start())
	b.child, b.answers = in, bufio.NewScanner(out)
	b.t.Cleanup(func() {
		_ = in.Close()
		must(b.t, child.Wait())
	})
}

// beat makes every worker send one heartbeat, spread evenly over the given time. If skip is not 0, the workers that
// fall silent do not send. round is the number in the heartbeats.
func (b *beats) beat(skip, round int, over time.Duration) {
	b.t.Helper()
	_, err := fmt.Fprintf(b.child, "%d %d %d\n", skip, round, over.Milliseconds())
	must(b.t, err)
	b.sent()
}

// sent waits until the child has carried out the command.
func (b *beats) sent() {
	b.t.Helper()
	if b.answers.Scan() && b.answers.Text() == "sent" {
		return
	}
	said := b.answers.Text()
	for b.answers.Scan() {
		said += "\n" + b.answers.Text()
	}
	b.t.Fatalf("the child says %q, %v", said, b.answers.Err())
}

// playWorkers runs in the child. It sends the heartbeats that its standard input requests.
func playWorkers(t *testing.T, order string) {
	var o beatsOrder
	must(t, json.Unmarshal([]byte(order), &o))
	conns := make([]*nats.Conn, 8) // the relay limits each connection to 4 MiB per second
	for i := range conns {
		nc, err := nats.Connect(o.URL, nats.UserJWTAndSeed(o.JWT, o.Seed))
		must(t, err)
		defer nc.Close()
		conns[i] = nc
	}
	subjects := wire.Subjects{Prefix: wire.DefaultPrefix}
	encode := func(n, round int) []byte {
		p := wire.Heartbeat{
			State: wire.HeartbeatState{
				Stage: wire.StageCode, IssueNumber: n + 1, Attempt: 1,
				Progress: &wire.Progress{Step: strconv.Itoa(round)}, LastUpdateAt: wire.At(time.Now()),
			},
			Usage: &wire.Usage{Tokens: int64(1000 * round), CostUSD: 0.21, CacheHits: 1},
		}
		data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: beatWorker(n), RunID: "run_20261121-095900Z"},
			uint64(round), time.Now(), p)
		must(t, err)
		return data
	}
	sent := openSentTimes(t, o.Sent, o.Workers)
	burst := make([][]byte, o.Workers) // encoded in advance, because all of them must leave within a second
	for n := range burst {
		burst[n] = encode(n, burstRound)
	}
	fmt.Println("sent")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var skip, round, ms int
		_, err := fmt.Sscan(lines.Text(), &skip, &round, &ms)
		must(t, err)
		began := time.Now()
		for n := range o.Workers {
			due := began.Add(time.Duration(ms) * time.Millisecond * time.Duration(n) / time.Duration(o.Workers))
			// each connection flushes separately, about one heartbeat at a time, as workers do
			if wait := time.Until(due); wait > time.Millisecond {
				time.Sleep(wait)
			}
			if skip != 0 && n%beatSilent == 0 {
				continue
			}
			data := burst[n]
			if round != burstRound {
				data = encode(n, round)
			}
			sent.set(n)
			must(t, conns[n%len(conns)].Publish(subjects.Worker(beatWorker(n), wire.ChannelHeartbeat), data))
		}
		for _, nc := range conns {
			must(t, nc.Flush())
		}
		fmt.Println("sent")
	}
}
