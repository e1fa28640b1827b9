package server

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// Bounds of what the server's own log adds to the director's. A client chooses how often some of it comes, and
// a part of the text.
const (
	linesPerSecond = 1  // of one kind
	linesAtOnce    = 10 // of one kind
	maxLine        = 512
)

// signInRefused is in each line about a client that may not sign in.
const signInRefused = "authentication error"

// kinds of lines that a client can cause at will. Each is sampled by itself, so that none hides the others, nor
// what is of no such kind.
var kinds = []string{
	"Publish Violation", "Subscription Violation", signInRefused, "Slow Consumer", "maximum payload",
	"maximum subscriptions", "Parser ERROR", "",
}

// number is that of a connection, which the server puts before a line. What the client calls itself comes
// behind it, in quotes.
var number = regexp.MustCompile(`^[^"]{1,128}? - cid:(\d+)\b`)

// serverLog passes on the server's warnings and errors, sampled; the rest is for debugging. The server calls it
// from many goroutines.
type serverLog struct {
	log     *zap.Logger
	refused atomic.Pointer[func(connection uint64)]
	paces   []pace // as kinds
}

// pace is how much of one kind is passed on.
type pace struct {
	limit   *rate.Limiter
	skipped atomic.Uint64 // since the last one that was
}

func newServerLog(log *zap.Logger) *serverLog {
	l := &serverLog{log: log, paces: make([]pace, len(kinds))}
	for i := range l.paces {
		l.paces[i].limit = rate.NewLimiter(linesPerSecond, linesAtOnce)
	}
	return l
}

// pass writes a line unless there were too many of its kind. What it is going to say is formatted only then.
func (l *serverLog) pass(write func(string, ...zap.Field), format string, v []any) {
	kind := slices.IndexFunc(kinds, func(k string) bool { return strings.Contains(format, k) })
	if told := l.refused.Load(); told != nil && strings.HasSuffix(kinds[kind], "Violation") {
		if of := number.FindStringSubmatch(format); of != nil {
			if n, err := strconv.ParseUint(of[1], 10, 64); err == nil {
				(*told)(n)
			}
		}
	}
	p := &l.paces[kind]
	if !p.limit.Allow() {
		p.skipped.Add(1)
		return
	}
	var fields []zap.Field
	if n := p.skipped.Swap(0); n > 0 {
		fields = append(fields, zap.Uint64("skipped", n))
	}
	write("nats: "+line(format, v), fields...)
}

func line(format string, v []any) string {
	text := fmt.Sprintf(format, v...)
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	return text
}

func (l *serverLog) Noticef(format string, v ...any) {
	if l.log.Core().Enabled(zap.DebugLevel) {
		l.log.Debug("nats: " + line(format, v))
	}
}
func (l *serverLog) Warnf(format string, v ...any)  { l.pass(l.log.Warn, format, v) }
func (l *serverLog) Fatalf(format string, v ...any) { l.log.Error("nats: " + line(format, v)) }

// Errorf: a worker that connects again may be early, and is known as soon as the director has told the server
// of the workers' account.
func (l *serverLog) Errorf(format string, v ...any) {
	if strings.Contains(format, signInRefused) {
		l.pass(l.log.Warn, format, v)
		return
	}
	l.pass(l.log.Error, format, v)
}
func (l *serverLog) Debugf(string, ...any) {}
func (l *serverLog) Tracef(string, ...any) {}
