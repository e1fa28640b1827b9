package fsm

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// newDriver returns a booted driver. Its first batch is in the journal.
func newDriver(t *testing.T) (*Driver, *journal) {
	t.Helper()
	d, j := NewDriver(New(testConfig()), 0, "p1"), &journal{}
	mustOffer(t, d, Booted{RunID: "r"}, 0)
	drain(d, j)
	return d, j
}

func mustOffer(t *testing.T, d *Driver, body EventBody, tok Token) {
	t.Helper()
	if err := d.Offer(Event{At: epoch, Body: body}, tok); err != nil {
		t.Fatal(err)
	}
}

// drain appends until the driver is idle, and returns its output.
func drain(d *Driver, j *journal) (acks []Token, out []Effect) {
	for !d.Idle() {
		r := d.Ready()
		acks, out = append(acks, r.Acks...), append(out, r.Effects...)
		if r.Batch != nil {
			d.Appended(j.append(r.Batch))
		}
	}
	return acks, out
}

// oneIssue returns a view that queues issue n.
func oneIssue(n string) IssuesSeen {
	return IssuesSeen{Repo: "acme/widgets", AskedAt: epoch, Issues: []IssueView{{
		Key: issueKey(n), Title: "t", Open: true, Labels: []Label{LabelTask}, Nonce: "k" + n,
	}}}
}

func TestDriverHoldsAcksAndEffectsUntilAppended(t *testing.T) {
	d, j := newDriver(t)
	mustOffer(t, d, oneIssue("1"), 1)
	mustOffer(t, d, Tick{}, 2) // has no facts, but waits until the earlier decisions are durable
	r := d.Ready()
	if r.Batch == nil || len(r.Acks)+len(r.Effects) > 0 {
		t.Fatalf("before the append: %+v", r)
	}
	mustOffer(t, d, oneIssue("2"), 3)
	if r := d.Ready(); r.Batch != nil || len(r.Acks)+len(r.Effects) > 0 {
		t.Fatalf("while an append is under way: %+v", r)
	}
	d.Appended(j.append(r.Batch))
	r = d.Ready()
	if !slices.Equal(r.Acks, []Token{1, 2}) || len(r.Effects) != 1 || r.Effects[0].ID != "k1-0/claim" {
		t.Fatalf("after the first append: %+v", r)
	}
	if r.Batch == nil || r.Batch.After != 2 {
		t.Fatalf("the second batch: %+v", r.Batch)
	}
	d.Appended(j.append(r.Batch))
	if r = d.Ready(); !slices.Equal(r.Acks, []Token{3}) || len(r.Effects) != 1 || !d.Idle() {
		t.Fatalf("after the second append: %+v", r)
	}
}

func TestDriverAcknowledgesAtOnceWhatDecidedNothing(t *testing.T) {
	d, _ := newDriver(t)
	mustOffer(t, d, Tick{}, 9)
	if r := d.Ready(); r.Batch != nil || !slices.Equal(r.Acks, []Token{9}) {
		t.Fatalf("%+v", r)
	}
	if r := d.Ready(); len(r.Acks) > 0 {
		t.Fatalf("handed out twice: %+v", r)
	}
}

func TestDriverBatchesAreBoundedAndInOrder(t *testing.T) {
	d, j := newDriver(t)
	title := strings.Repeat("x", 10_000)
	const n = 100
	for i := range n {
		e := oneIssue("1")
		e.Issues[0].Title = title + string(rune('a'+i%2)) // a new title every time
		mustOffer(t, d, e, Token(i+1))
	}
	ids, records := map[string]bool{}, 0
	var acks []Token
	for !d.Idle() {
		r := d.Ready()
		acks = append(acks, r.Acks...)
		if r.Batch == nil {
			continue
		}
		if len(r.Batch.Data) > batchBytes || ids[r.Batch.ID] {
			t.Fatalf("batch %s has %d bytes", r.Batch.ID, len(r.Batch.Data))
		}
		ids[r.Batch.ID] = true
		back, err := ReadBatch(r.Batch.Data)
		if err != nil || len(back) != len(r.Batch.Records) {
			t.Fatalf("batch of %d records reads as %d: %v", len(r.Batch.Records), len(back), err)
		}
		records += len(back)
		d.Appended(j.append(r.Batch))
	}
	if records != n || len(ids) < 5 || len(acks) != n || !slices.IsSorted(acks) {
		t.Fatalf("%d records in %d batches, %d acks", records, len(ids), len(acks))
	}
}

func TestDriverRecordLargerThanABatchGoesAlone(t *testing.T) {
	d, j := newDriver(t)
	e := oneIssue("1")
	e.Issues[0].Title = strings.Repeat("x", batchBytes+1)
	mustOffer(t, d, e, 0)
	mustOffer(t, d, oneIssue("2"), 0)
	r := d.Ready()
	if len(r.Batch.Records) != 1 {
		t.Fatalf("%d records", len(r.Batch.Records))
	}
	if !bytes.HasPrefix(r.Batch.Records[0].Cause.Body, []byte(`{"omitted_bytes":262`)) {
		t.Fatalf("cause %.80s", r.Batch.Records[0].Cause.Body)
	}
	d.Appended(j.append(r.Batch))
	drain(d, j)
}

func TestDriverHandsOutNothingAfterStop(t *testing.T) {
	d, _ := newDriver(t)
	mustOffer(t, d, oneIssue("1"), 1)
	b := d.Ready().Batch
	d.Stop()
	d.Appended(b.After + 1) // the answer comes late
	if r := d.Ready(); r.Batch != nil || len(r.Acks)+len(r.Effects) > 0 {
		t.Fatalf("%+v", r)
	}
	if err := d.Offer(Event{At: epoch, Body: Tick{}}, 2); !errors.Is(err, ErrStopped) {
		t.Fatalf("offer after stop: %v", err)
	}
	if d.Last() != b.After {
		t.Fatalf("last is %d", d.Last())
	}
}

func TestDriverStopsAtWhatCannotBeJournaled(t *testing.T) {
	d, _ := newDriver(t)
	mustOffer(t, d, oneIssue("1"), 0)
	mustOffer(t, d, WorkerSeen{Worker: "k1-1"}, 0) // an unknown worker, fenced once a minute
	nan := math.NaN()
	mustOffer(t, d, WorkerSeen{Worker: "k1-1", Activity: Activity{Percent: &nan}}, 0) // soft state is not recorded
	d.m.hard.Cooldowns = nil
	err := d.Offer(Event{At: epoch, Body: CooldownReported{
		Resource: GitHubRead,
		Until:    time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
	}}, 0)
	if err == nil {
		t.Fatal("RFC 3339 does not allow a year of five digits")
	}
	if r := d.Ready(); r.Batch != nil {
		t.Fatalf("%+v", r)
	}
	if err := d.Offer(Event{At: epoch, Body: Tick{}}, 0); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
}

func TestReadBatchRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, data := range map[string]string{
		"unknown fact": `{"at":"2026-11-21T10:00:00Z","cause":{"kind":"tick","body":{}},"facts":[{"kind":"teleported","body":{}}]}`,
		"cut short":    `{"at":"2026-11-21T10:00:00Z","facts":[`,
		"wrong type":   `{"at":"2026-11-21T10:00:00Z","facts":[{"kind":"moved","body":{"attempt":"one"}}]}`,
		"wrong state":  `{"at":"2026-11-21T10:00:00Z","facts":[{"kind":"moved","body":{"to":"Elsewhere"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadBatch([]byte(data + "\n")); err == nil {
				t.Fatal("was read")
			}
		})
	}
}
