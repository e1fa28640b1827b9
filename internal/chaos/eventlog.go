package chaos

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// eventLog prints events, and remembers the last lastLines of them.
type eventLog struct {
	out   io.Writer
	began time.Time

	mu    sync.Mutex
	lines []string
}

// lastLines is the number of events printed again after a failure.
const lastLines = 40

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprintf("%7.1fs  %s", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
	if l.lines = append(l.lines, line); len(l.lines) > lastLines {
		l.lines = l.lines[1:]
	}
	fmt.Fprintln(l.out, line)
}

func (l *eventLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
