package attack

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// resultAttacks check that a report counts only if the director's observations match it.
var resultAttacks = []attack{
	{
		name: "a self-made success", kind: onResults, quick: true,
		does:  "with the stolen credential: worker_result.v1 for its own attempt, unsigned and with made-up signatures",
		holds: "nothing is delivered", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			if _, err := b.agent("write", "work.txt", "not validated"); err != nil {
				return err
			}
			for _, data := range b.forgeries() {
				_, _ = t.ask(b.me.subject(wire.ChannelResult), data)
			}
			return b.undelivered()
		},
	},
	{
		name: "a success while the real worker fails", kind: onResults,
		does:   "50 forged successes before, during and after the worker's own error",
		holds:  "one verdict, from the worker's error, without a delivery",
		before: "succeeded: the forged success came first and was pushed",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			if _, err := b.agent("write", "work.txt", "not validated"); err != nil {
				return err
			}
			forged := b.forgeries()
			for i := range 10 {
				_ = t.PublishRequest(b.me.subject(wire.ChannelResult), inbox(b.me.Plan)+".x", forged[i%len(forged)])
			}
			_ = t.FlushTimeout(5 * time.Second)
			e := b.me.failure("real", "the tests fail")
			e.EscalateToHuman = true
			if err := b.me.report(e); err != nil {
				return fmt.Errorf("the worker's own report: %w", err)
			}
			for i := range 10 {
				if t.PublishRequest(b.me.subject(wire.ChannelResult), inbox(b.me.Plan)+".x",
					forged[i%len(forged)]) != nil {
					break
				}
			}
			_ = t.FlushTimeout(5 * time.Second)
			if err := until("it is blocked", 20*time.Second,
				func() bool { return b.has(b.me.Task, "agent-blocked") }); err != nil {
				return err
			}
			return b.undelivered()
		},
	},
	{
		name: "a success for a neighbour", kind: onResults, quick: true,
		does:   "the same on a neighbour's subject, with its ids",
		holds:  "refused by the server; the neighbour works on",
		before: "held on the embedded bus; succeeded on a joined one",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			for i := range 20 {
				_ = t.Publish(b.neighbour.subject(wire.ChannelResult), b.neighbour.message(b.neighbour.result()))
				_ = t.Publish(b.neighbour.subject(wire.ChannelError),
					b.neighbour.message(b.neighbour.failure(fmt.Sprintf("f%d", i), "x")))
			}
			n := t.refusals(40)
			b.note("%d refused", n)
			if n != 40 {
				return fmt.Errorf("%d of 40 were refused", n)
			}
			return nil
		},
	},
	{
		name: "a self-made error", kind: onResults,
		does:  "unsigned worker_error.v1, in an envelope and bare, in the worker's and in an operator's name",
		holds: "it does not decide, and the attempt continues", before: "succeeded: it ended the attempt",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			e := b.me.failure("forged", "needs a person")
			e.EscalateToHuman = true
			for _, from := range []wire.Sender{
				{Role: wire.RoleWorker, ID: b.me.id},
				{Role: wire.RoleOperator, ID: person},
				{Role: wire.RoleDirector, ID: "director"},
			} {
				data, err := wire.Encode(from, 1, time.Now(), e)
				if err != nil {
					return err
				}
				_, _ = t.ask(b.me.subject(wire.ChannelError), data)
			}
			bare := fmt.Sprintf(
				`{"error_id":"bare","worker_id":%q,"issue_number":%d,"stage":"VALIDATE","attempt":1,"error_type":"tests_failed","is_transient":false,"should_retry":false,"escalate_to_human":true,"message":"x","exit_code":1,"last_stdout_tail":"","last_stderr_tail":""}`,
				b.me.id, b.me.Plan.Issue.Number)
			_, _ = t.ask(b.me.subject(wire.ChannelError), []byte(bare))
			time.Sleep(2 * time.Second)
			if b.me.stopped() || b.has(b.me.Task, "agent-blocked") {
				return errors.New("it ended the attempt")
			}
			return nil
		},
	},
	{
		name: "a poisoned message id", kind: onResults, quick: true,
		does: "junk with the Nats-Msg-Id of its neighbour's result, of the director's exit report, and of its own " +
			"worker's error",
		holds: "none of those is dropped as a duplicate", before: "succeeded: worker_lost",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			for _, worker := range []string{b.neighbour.id, b.me.id} {
				for _, id := range []string{"/result", "/exit", "/real", "/1", "/2", "/3"} {
					for _, msg := range []string{worker + "/" + worker + id, worker + id} {
						for _, c := range []wire.Channel{wire.ChannelError, wire.ChannelResult} {
							_, _ = t.RequestMsg(&nats.Msg{
								Subject: b.me.subject(c),
								Header:  nats.Header{"Nats-Msg-Id": {msg}}, Data: []byte("junk"),
							}, 300*time.Millisecond)
						}
					}
				}
			}
			t.Close()
			e := b.me.failure("real", "a real failure")
			e.EscalateToHuman = true
			if b.me.stopped() { // the director stopped the worker for an offence
				b.note("the offender was stopped")
				return nil
			}
			if err := b.me.report(e); err != nil {
				b.note("own report: %v", err)
				return until("the offender was stopped", 10*time.Second, b.me.stopped)
			}
			return until("the worker's own error is decided", 20*time.Second,
				func() bool { return b.has(b.me.Task, "agent-blocked") })
		},
	},
	{
		name: "a result after the end", kind: onResults,
		does:  "the worker's own success, well formed, sent once its issue was closed and its attempt is over",
		holds: "refused, without a delivery", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			b.github.SetState(b.me.Task, person, "closed")
			if err := until("the stop", 20*time.Second, b.me.stopped); err != nil {
				return err
			}
			_, _ = t.ask(b.me.subject(wire.ChannelResult), b.me.message(b.me.result()))
			return b.undelivered()
		},
	},
	{
		name: "an earlier attempt's report again", kind: onResults,
		does:  "signed messages of the first attempt (an error, and a success), sent in the second",
		holds: "it does not decide in the second attempt", before: "succeeded: it ended the later attempt",
		run: func(b *battle) error {
			e := b.me.failure("first", "HTTP 500")
			e.IsTransient, e.ShouldRetry = true, true
			if err := b.me.report(e); err != nil {
				return err
			}
			b.me.end(1)
			second, err := b.attempt(b.me.Task, b.me.id)
			if err != nil {
				return err
			}
			if err := second.work(); err != nil {
				return err
			}
			defer second.hush()
			t, err := second.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			for _, body := range []wire.Payload{second.result(), b.me.result(), second.failure("again", "x"), e} {
				data, err := signedWith(b.me.Plan, second.id, body)
				if err != nil {
					return err
				}
				c, _ := wire.ReportID(body)
				_, _ = t.ask(second.subject(c), data)
			}
			time.Sleep(2 * time.Second)
			if second.stopped() {
				return errors.New("it ended the second attempt")
			}
			return b.undelivered()
		},
	},
}

// undelivered checks for four seconds that the director does not deliver the attacker's work as finished. The director
// may push it as unfinished work.
func (b *battle) undelivered() error {
	_, number, _ := strings.Cut(b.me.Task, "#")
	for range 20 {
		if b.has(b.me.Task, "agent-review") {
			return errors.New("it is in review")
		}
		subjects, _ := b.git("for-each-ref", "--format=%(subject)", "refs/heads/retake/"+number+"-a?")
		for subject := range strings.Lines(subjects) {
			if !strings.HasPrefix(subject, "Unfinished work") {
				return fmt.Errorf("pushed: %s", subject)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil
}
