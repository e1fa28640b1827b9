package director

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// sentTimes contains the time of each worker's last heartbeat. The child writes it, and the director compares
// suspicions with it.
type sentTimes []byte

const sentSize = 8 // bytes of one worker's time in sentTimes

// newSentTimes creates the file, and returns its name.
func newSentTimes(t *testing.T, workers int) (sentTimes, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sent")
	must(t, os.WriteFile(file, make([]byte, workers*sentSize), 0o600))
	return openSentTimes(t, file, workers), file
}

func openSentTimes(t *testing.T, file string, workers int) sentTimes {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	must(t, err)
	access := syscall.PROT_READ | syscall.PROT_WRITE
	pages, err := syscall.Mmap(int(f.Fd()), 0, workers*sentSize, access, syscall.MAP_SHARED)
	must(t, err)
	must(t, f.Close())
	t.Cleanup(func() { must(t, syscall.Munmap(pages)) })
	return pages
}

// set records that a worker sends now.
func (s sentTimes) set(n int) {
	binary.LittleEndian.PutUint64(s[n*sentSize:], uint64(time.Now().UnixNano()))
}

// inTime reports whether a worker sent a heartbeat after heard and at least beatPrompt before the deadline, so that the
// director should have received it in time.
func (s sentTimes) inTime(n int, heard, deadline time.Time) bool {
	sent := time.Unix(0, int64(binary.LittleEndian.Uint64(s[n*sentSize:])))
	return sent.After(heard) && sent.Before(deadline.Add(-beatPrompt))
}

// A suspicion counts as wrong only if the worker had sent its heartbeat in time.
func TestSentTimes(t *testing.T) {
	s, _ := newSentTimes(t, 2)
	heard := time.Now()
	s.set(1)
	for _, row := range []struct {
		what     string
		n        int
		deadline time.Time
		want     bool
	}{
		{"it has not sent", 0, heard.Add(time.Minute), false},
		{"it has sent", 1, heard.Add(time.Minute), true},
		{"it has sent only after its deadline", 1, heard.Add(-time.Second), false},
	} {
		if got := s.inTime(row.n, heard.Add(-time.Second), row.deadline); got != row.want {
			t.Errorf("%s: %t", row.what, got)
		}
	}
}
