package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/secrets/redact"
)

// Options configure a Store. A zero field selects its default.
type Options struct {
	Log  *zap.Logger
	Keep Keep
	Now  func() time.Time // time.Now
}

// Keep limits the stored output. The default is at the end of each comment.
type Keep struct {
	PartBytes int64         // size of each of the two files of a running attempt; 4 MiB
	Burst     int           // bytes that an attempt can print at once; 4 MiB
	PerSecond int           // long-term maximum rate of output, in bytes per second; 256 KiB
	Files     int           // number of attempts; 500
	Bytes     int64         // bytes of all attempts together; 1 GiB
	Age       time.Duration // time since the output was last written; 30 days
}

// folderName is the output directory, with one subdirectory per task.
const folderName = "outputs"

// Store stores the output of attempts. Its methods are safe for concurrent use.
type Store struct {
	dir  string
	o    Options
	log  *zap.Logger
	ctx  context.Context // context of the recordings
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	tasks map[string]*task // by directory name
	live  map[string]*recording
}

// task holds the task state that is not in the task's files.
type task struct {
	open    bool          // more attempts may follow
	changed chan struct{} // closed and replaced when an attempt starts or the task ends
}

// Open returns the store of a data directory. It does not access the disk yet.
func Open(dir string, o Options) *Store {
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Keep = Keep{
		PartBytes: cmp.Or(o.Keep.PartBytes, 4<<20), Burst: cmp.Or(o.Keep.Burst, 4<<20),
		PerSecond: cmp.Or(o.Keep.PerSecond, 256<<10),
		Files:     cmp.Or(o.Keep.Files, 500), Bytes: cmp.Or(o.Keep.Bytes, 1<<30),
		Age: cmp.Or(o.Keep.Age, 30*24*time.Hour),
	}
	s := &Store{dir: dir, o: o, log: o.Log, tasks: map[string]*task{}, live: map[string]*recording{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends all recordings, but keeps their files. A later process rewrites the files of running attempts.
func (s *Store) Close() {
	s.mu.Lock() // later calls to Begin do nothing
	s.end()
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work.Wait()
	}()
	select {
	case <-done:
	case <-time.After(closeTime):
		s.log.Warn("the disk is not responding; output is still being written")
	}
}

// closeTime is the maximum time that Close waits for an unresponsive disk.
const closeTime = 10 * time.Second

// Chunk is a piece of an attempt's output.
type Chunk struct {
	At     time.Time // zero if unknown
	Stderr bool
	Data   []byte // one or more lines, or a part of a line; the callee must not keep it
}

// Source calls take with the past and future output of an attempt, from the first available byte. It returns nil when
// the attempt has ended.
type Source func(ctx context.Context, take func(Chunk)) error

// Recording identifies an attempt to record, and the secrets to hide.
type Recording struct {
	Issue, ID string
	N         int
	Key       []byte              // verifies the worker's stage marks; without it, stages are unknown
	Secrets   *redact.Redactor    // hides secret values, even if chunks split them
	Mask      func(string) string // hides further text in a line; may be nil
	Source    Source
}

// Begin records an attempt in the background until it ends. It does nothing if a recording is already active.
func (s *Store) Begin(r Recording) {
	if _, err := s.begin(r); err != nil {
		s.log.Warn("could not record attempt output", zap.String("issue", r.Issue), zap.String("worker", r.ID),
			zap.Error(err))
	}
}

func (s *Store) begin(r Recording) (*recording, error) {
	folder, err := audit.TaskFolder(r.Issue)
	if err == nil && !attemptForm.MatchString(r.ID) {
		err = fmt.Errorf("invalid attempt name %.100q", r.ID)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.live[r.ID]; now != nil {
		return now, nil
	}
	if s.ctx.Err() != nil {
		return nil, errors.New("the director is shutting down")
	}
	rec := newRecording(s, folder, r)
	s.live[r.ID] = rec
	s.taskOf(folder).notify()
	s.work.Go(rec.run)
	return rec, nil
}

// Finish returns the stored output of an ended attempt once it is durable. If the attempt was not recorded, Finish
// first records it from the source. When ctx is done, it finishes with the output received so far.
func (s *Store) Finish(ctx context.Context, r Recording) (Stored, error) {
	if stored, err := s.Stored(r.Issue, r.ID); err == nil {
		return stored, nil
	}
	rec, err := s.begin(r)
	if err != nil {
		return Stored{}, err
	}
	select {
	case <-rec.done:
	case <-ctx.Done():
		rec.giveUp()
		select {
		case <-rec.done:
		case <-time.After(time.Second): // the disk is not responding
			return Stored{}, context.Cause(ctx)
		}
	}
	return s.Stored(r.Issue, r.ID)
}

// Stored returns the finished output of an attempt. It returns fs.ErrNotExist if there is no output.
func (s *Store) Stored(issue, id string) (Stored, error) {
	folder, err := audit.TaskFolder(issue)
	if err != nil {
		return Stored{}, err
	}
	return digest(s.dir, filepath.Join(folderName, folder, id+sealedSuffix))
}

// Expect declares that a task may have more attempts, so that followers wait for them.
func (s *Store) Expect(issue string) { s.setOpen(issue, true) }

// Over declares that a task will have no further attempts.
func (s *Store) Over(issue string) { s.setOpen(issue, false) }

func (s *Store) setOpen(issue string, open bool) {
	folder, err := audit.TaskFolder(issue)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.taskOf(folder)
	if t.open = open; !open {
		t.notify()
		delete(s.tasks, folder)
	}
}

// taskOf returns the state of a task, and creates it if necessary. The caller holds s.mu.
func (s *Store) taskOf(folder string) *task {
	t := s.tasks[folder]
	if t == nil {
		t = &task{changed: make(chan struct{})}
		s.tasks[folder] = t
	}
	return t
}

func (t *task) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Suffixes of an attempt's files. A running attempt has a newest part and a previous part. An ended attempt has only
// the sealed file.
const (
	partSuffix   = ".jsonl"
	olderSuffix  = ".1.jsonl"
	sealedSuffix = ".jsonl.zst"
)

var (
	attemptForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	fileForm    = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_-]{0,127})(\.1)?\.jsonl(\.zst)?$`)
)

// SealOthers finishes recordings from an earlier process, except for the given attempts.
func (s *Store) SealOthers(there []string) {
	s.work.Go(func() {
		found, _ := filepath.Glob(filepath.Join(s.dir, folderName, "*", "*"+partSuffix)) // Glob accepts this pattern
		for _, path := range found {
			id := fileForm.FindStringSubmatch(filepath.Base(path))
			if id == nil || id[2] != "" && exists(strings.TrimSuffix(path, olderSuffix)+partSuffix) ||
				slices.Contains(there, id[1]) || s.ctx.Err() != nil {
				continue
			}
			s.mu.Lock()
			recorded := s.live[id[1]] != nil
			s.mu.Unlock()
			if recorded {
				continue
			}
			if err := seal(filepath.Dir(path), id[1], false); err != nil {
				s.log.Warn("could not finish the output of an earlier attempt", zap.String("worker", id[1]),
					zap.Error(err))
			}
		}
		s.prune()
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// kept lists all files of one attempt.
type kept struct {
	paths []string
	bytes int64
	at    time.Time
}

// prune removes the oldest outputs until the rest fits within the limits of Keep.
func (s *Store) prune() {
	byID := map[string]*kept{}
	found, _ := filepath.Glob(filepath.Join(s.dir, folderName, "*", "*")) // Glob accepts this pattern
	for _, path := range found {
		m := fileForm.FindStringSubmatch(filepath.Base(path))
		info, err := os.Stat(path)
		if m == nil || err != nil {
			continue
		}
		k := byID[m[1]]
		if k == nil {
			k = &kept{}
			byID[m[1]] = k
		}
		k.paths, k.bytes = append(k.paths, path), k.bytes+info.Size()
		if info.ModTime().After(k.at) {
			k.at = info.ModTime()
		}
	}
	s.mu.Lock()
	for id := range s.live {
		delete(byID, id)
	}
	s.mu.Unlock()
	all := make([]*kept, 0, len(byID))
	for _, k := range byID {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *kept) int { return b.at.Compare(a.at) })
	var bytes int64
	for i, k := range all {
		if bytes += k.bytes; i < s.o.Keep.Files && bytes <= s.o.Keep.Bytes && s.o.Now().Sub(k.at) <= s.o.Keep.Age {
			continue
		}
		for _, path := range k.paths {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.log.Warn("could not remove old output", zap.String("path", path), zap.Error(err))
			}
		}
	}
}

// Attempts lists the attempts of an issue with stored output, oldest first.
func (s *Store) Attempts(issue string) ([]Attempt, error) {
	folder, err := audit.TaskFolder(issue)
	if err != nil {
		return nil, err
	}
	found, err := os.ReadDir(filepath.Join(s.dir, folderName, folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	byID := map[string]Attempt{}
	for _, e := range found {
		m := fileForm.FindStringSubmatch(e.Name())
		if m == nil || strings.HasSuffix(e.Name(), olderSuffix) {
			continue
		}
		if h, err := readHeader(filepath.Join(s.dir, folderName, folder, e.Name())); err == nil && h.ID == m[1] {
			h.Live = false
			byID[h.ID] = h.Attempt
		}
	}
	var live []*recording
	s.mu.Lock()
	for _, rec := range s.live {
		if rec.folder == folder {
			live = append(live, rec)
		}
	}
	s.mu.Unlock() // do not hold s.mu while the holder of a recording's lock blocks on the disk
	for _, rec := range live {
		rec.mu.Lock()
		byID[rec.ID] = rec.attempt()
		rec.mu.Unlock()
	}
	list := make([]Attempt, 0, len(byID))
	for _, a := range byID {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b Attempt) int {
		return cmp.Or(a.Began.Compare(b.Began.Time), cmp.Compare(a.N, b.N), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}
