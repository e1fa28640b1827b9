package director

import (
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// raw is the same server without our code. js accesses it without a socket.
type raw struct {
	js    jetstream.JetStream
	close func()
}

func openRaw(t testing.TB, dir string, synced bool) raw {
	t.Helper()
	s, err := natsd.NewServer(&natsd.Options{
		DontListen: true, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: dir, SyncAlways: synced,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1024))
	if err != nil {
		t.Fatal(err)
	}
	return raw{js, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	}}
}

func (r raw) publish(t testing.TB, subject string, body []byte) jetstream.PubAckFuture {
	t.Helper()
	f, err := r.js.PublishAsync(subject, body, jetstream.WithStallWait(time.Minute))
	if err != nil {
		t.Error(err)
	}
	return f
}

// streams creates the two streams that messages pass between.
func (r raw) streams(t testing.TB) {
	t.Helper()
	for _, name := range []string{"IN", "OUT"} {
		if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: name, Subjects: []string{name},
			Storage: jetstream.FileStorage,
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// pass consumes IN, appends each message to OUT, and acknowledges it when that is stored. It calls passed for one
// message after another. appended waits until the message is stored.
func (r raw) pass(t testing.TB, passed func(m jetstream.Msg, appended func() error)) (stop func()) {
	t.Helper()
	consumer, err := r.js.CreateConsumer(t.Context(), "IN",
		jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1 << 14})
	if err != nil {
		t.Fatal(err)
	}
	type underWay struct {
		m   jetstream.Msg
		ack jetstream.PubAckFuture
	}
	waiting := make(chan underWay, 1<<14)
	consuming, err := consumer.Consume(func(m jetstream.Msg) { waiting <- underWay{m, r.publish(t, "OUT", m.Data())} },
		jetstream.PullMaxMessages(2048))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for w := range waiting {
			passed(w.m, func() error {
				select {
				case <-w.ack.Ok():
					return w.m.Ack()
				case err := <-w.ack.Err():
					return err
				}
			})
		}
	}()
	return func() {
		consuming.Stop()
		<-consuming.Closed()
		close(waiting)
		<-ended
	}
}

// rawDrain returns how many messages per second the server itself handles: consume, append one, acknowledge.
func rawDrain(t testing.TB, synced bool, messages, bytes int) float64 {
	t.Helper()
	dir := t.TempDir()
	r := openRaw(t, dir, false)
	r.streams(t)
	body := make([]byte, bytes)
	for range messages {
		r.publish(t, "IN", body)
	}
	<-r.js.PublishAsyncComplete()
	r.close()
	r = openRaw(t, dir, synced)
	defer r.close()
	left, done := messages, make(chan struct{})
	began := time.Now()
	stop := r.pass(t, func(_ jetstream.Msg, appended func() error) {
		if err := appended(); err != nil {
			t.Error(err)
		}
		if left--; left == 0 {
			close(done)
		}
	})
	defer stop()
	<-done
	return rate(messages, time.Since(began))
}
