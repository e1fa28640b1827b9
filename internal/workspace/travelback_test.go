package workspace

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/checkpoint"
)

// onBus is the shared state of a checkout: chunks, and a record that each director replaces.
type onBus struct {
	chunks sentChunks
	record json.RawMessage
	root   checkpoint.Digest
}

// keep stores a director's checkout.
func (b *onBus) keep(t *testing.T, w *Workspaces) {
	t.Helper()
	m, record, err := w.Publish(t.Context(), nonceB, nil, b.chunks.put)
	if err == nil {
		err = w.Published(t.Context(), nonceB, m.Root)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.root, b.record = m.Root, record
}

// receive updates a director's checkout from the bus.
func (b *onBus) receive(t *testing.T, w *Workspaces, files bool) {
	t.Helper()
	sent := Sent{
		Root: b.root, Record: b.record, Fetch: b.chunks.get,
		Replace: func(_ context.Context, record json.RawMessage) error {
			b.record = record
			return nil
		},
	}
	if files {
		sent.Load = func(ctx context.Context) (*checkpoint.Manifest, error) {
			return checkpoint.Load(b.root, checkpoint.Unlimited,
				func(d checkpoint.Digest) ([]byte, error) { return b.chunks.get(ctx, d) })
		}
	}
	if err := w.Receive(t.Context(), nonceB, sent); err != nil {
		t.Fatal(err)
	}
}

// TestDirectorLeadsAgain has a director lead again, after another director took over, merged the base branch and
// pushed. The other director's state must count, even if Receive discards the files.
func TestDirectorLeadsAgain(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]bool{"work continues": true, "work is discarded": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, map[string]string{"a.txt": "one\n"})
			first, second, shared := open(t, Options{}), open(t, Options{}), &onBus{chunks: sentChunks{}}
			c := checkout(t, first, o, nonceB)
			put(t, c.Path, "work.txt", "done\n")
			shared.keep(t, first)

			o.change(t, map[string]string{"later.txt": "main moved"})
			shared.receive(t, second, true)
			if s, err := second.Sync(t.Context(), syncRequest(o), SyncOptions{}); err != nil || !s.Merged {
				t.Fatalf("%+v, %v", s, err)
			}
			d := deliver(t, second, o, nonceB)
			shared.keep(t, second)

			for range 2 { // the second call has no effect
				shared.receive(t, first, files)
			}
			if pushed, err := first.Pushed(nonceB); err != nil || pushed[branch] != d.SHA {
				t.Errorf("pushed %v, %v; want %s", pushed, err, d.SHA)
			}
			if !files {
				if c := checkout(t, first, o, nonceB); c.Reused {
					t.Error("it came back")
				}
				return
			}
			patch, err := first.Patch(t.Context(), nonceB)
			if err != nil || strings.Contains(patch, "later.txt") || !strings.Contains(patch, "work.txt") {
				t.Errorf("the work is %q, %v", patch, err)
			}
			shared.keep(t, first)
			shared.receive(t, second, true)
			again := checkout(t, second, o, nonceB)
			if got, err := os.ReadFile(filepath.Join(again.Path, "later.txt")); err != nil ||
				string(got) != "main moved" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestBegunBeforeAnythingWasSent: this director never published its checkout, but another director did.
func TestBegunBeforeAnythingWasSent(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	first, second, shared := open(t, Options{}), open(t, Options{}), &onBus{chunks: sentChunks{}}
	checkout(t, first, o, nonceB)
	o.change(t, map[string]string{"later.txt": "main moved"})
	put(t, checkout(t, second, o, nonceB).Path, "work.txt", "done\n")
	shared.keep(t, second)
	shared.receive(t, first, true)
	if patch, err := first.Patch(t.Context(), nonceB); err != nil || strings.Contains(patch, "later.txt") ||
		!strings.Contains(patch, "work.txt") {
		t.Errorf("the work is %q, %v", patch, err)
	}
}

// TestMergedBesideWhatWasSent: the sent files and record replace an unpublished merge.
func TestMergedBesideWhatWasSent(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w, shared := open(t, Options{}), &onBus{chunks: sentChunks{}}
	checkout(t, w, o, nonceB)
	there, record := shared.chunks.published(t, w, nonceB)
	put(t, there, "work.txt", "done\n")
	sent := shared.chunks.sent(t, there, record)
	shared.root, shared.record = sent.Root, record
	o.change(t, map[string]string{"later.txt": "main moved"})
	if _, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	shared.receive(t, w, true)
	if patch, err := w.Patch(t.Context(), nonceB); err != nil || strings.Contains(patch, "later.txt") ||
		!strings.Contains(patch, "work.txt") {
		t.Errorf("the work is %q, %v", patch, err)
	}
}
