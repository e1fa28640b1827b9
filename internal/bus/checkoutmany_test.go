package bus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

const manyFiles = 4000 // number of files of 10 KiB

// TestCheckoutOfManyFiles measures what each step costs, over loopback and with synced writes.
func TestCheckoutOfManyFiles(t *testing.T) {
	b := openBus(t, Options{Server: startServer(t, server.Options{
		ListenHosts: []string{"127.0.0.1"},
		SyncAlways:  true,
	})})
	rules := checkoutRules()
	rules.Limits = checkpoint.Limits{Files: 100_000, Entries: 100_000, Depth: 20, PathBytes: 1024, Bytes: 1 << 30}
	serveCheckouts(t, b, rules)
	dir := t.TempDir()
	writeMany(t, dir)
	o := checkoutOptions(t, b, worker)
	o.InProcess, o.URL = nil, b.WorkerURL("127.0.0.1")
	saved := checkoutLimits
	checkoutLimits = rules.Limits
	defer func() { checkoutLimits = saved }()
	began := time.Now()
	root := publish(t, b, worker, dir, true)
	stored := time.Since(began)
	s := newSender(t, o)
	began = time.Now()
	mustDo(t, s.fetch(root))
	t.Logf("%d files: read and stored in %s, fetched and written in %s", manyFiles, stored.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	store, err := b.Checkouts().Open(ctxFor(t), checkoutTask)
	mustDo(t, err)
	m, err := store.Load(ctxFor(t), root, rules.Limits)
	mustDo(t, err)
	sent := map[checkpoint.Digest]bool{}
	for d := range maps.Keys(m.Chunks) {
		sent[d] = true
	}
	mustDo(t, s.scan.Begin(t.Context(), m.Tree))
	s.measure("no change, the first", sent)
	time.Sleep(1100 * time.Millisecond) // a file that changed within the last second is read again
	s.measure("no change", sent)
	s.measure("no change", sent)
	s.write("d007/7", "another")
	s.measure("one file", sent)
	for i := range manyFiles {
		p := filepath.Join(s.dir, fmt.Sprintf("d%03d/%d", i%200, i))
		mustDo(t, os.WriteFile(p, fmt.Appendf(nil, "changed %d %s", i, strings.Repeat(fmt.Sprint(i), 1500)), 0o644))
	}
	s.measure("all files changed", sent)
}

// writeMany fills a directory with files of unrelated content.
func writeMany(t *testing.T, dir string) {
	t.Helper()
	data := make([]byte, 10<<10)
	for i := range manyFiles {
		copy(data, fmt.Sprintf("%d %x", i, checkpoint.DigestOf(fmt.Append(nil, i))))
		for j := 100; j < len(data); j += 97 {
			data[j] = byte(i * j)
		}
		p := filepath.Join(dir, fmt.Sprintf("d%03d", i%200))
		mustDo(t, os.MkdirAll(p, 0o755))
		mustDo(t, os.WriteFile(filepath.Join(p, fmt.Sprint(i)), data, 0o644))
	}
}

// measure sends a checkpoint without the chunks in sent, and logs the effort.
func (s *sender) measure(what string, sent map[checkpoint.Digest]bool) {
	t := s.t
	t.Helper()
	began, bytes, chunks := time.Now(), 0, 0
	var sending errgroup.Group
	sending.SetLimit(8) // the limit of a worker
	put := func(d checkpoint.Digest, data []byte) error {
		if sent[d] {
			return nil
		}
		sent[d] = true
		bytes, chunks = bytes+len(data), chunks+1
		sending.Go(func() error { return s.client.PutChunk(t.Context(), data) })
		return nil
	}
	s.scan.Emit = put
	tree, err := s.scan.Scan(t.Context(), false)
	mustDo(t, err)
	scanned := time.Since(began)
	m, err := tree.Encode(put)
	mustDo(t, err)
	mustDo(t, sending.Wait())
	missing, err := s.client.SaveCheckpoint(ctxFor(t), wire.Checkpoint{AttemptID: worker, Manifest: m.Root.String()})
	if err != nil || len(missing) > 0 {
		t.Fatalf("%v, missing %q", err, missing)
	}
	s.scan.Keep(tree)
	t.Logf("a checkpoint of %-24s %8d bytes in %4d chunks, %s, of it %s to look", what+":", bytes, chunks,
		time.Since(began).Round(time.Millisecond), scanned.Round(time.Millisecond))
}
