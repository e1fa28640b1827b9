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

// Bounds on the server's lines in the director's log. A client controls the rate of some lines and part of their text.
const (
	linesPerSecond = 1  // of one kind
	linesAtOnce    = 10 // of one kind
	maxLine        = 512
)

// signInRefused is in each line about a client that may not sign in.
const signInRefused = "authentication error"

// kinds of lines that a client can cause at will. Each is sampled separately, so one kind cannot hide the others or the
// remaining lines.
var kinds = []string{
	"Publish Violation", "Subscription Violation", signInRefused, "Slow Consumer", "maximum payload",
	"maximum subscriptions", "Parser ERROR", "",
}

// number matches the number of a connection at the start of a line. The name that the client has chosen follows it in
// quotes.
var number = regexp.MustCompile(`^[^"]{1,128}? - cid:(\d+)\b`)

// serverLog logs a sample of the server's warnings and errors, and all other lines at debug level. The server calls it
// from many goroutines.
type serverLog struct {
	log     *zap.Logger
	refused atomic.Pointer[func(connection uint64)]
	paces   []pace // in the order of kinds
}

// pace limits the lines of one kind.
type pace struct {
	limit   *rate.Limiter
	skipped atomic.Uint64 // since the last line that was passed on
}

func newServerLog(log *zap.Logger) *serverLog {
	l := &serverLog{log: log, paces: make([]pace, len(kinds))}
	for i := range l.paces {
		l.paces[i].limit = rate.NewLimiter(linesPerSecond, linesAtOnce)
	}
	return l
}

// pass writes a line unless there were too many of its kind. It formats only lines that it writes.
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

// Errorf logs an error from the server. A worker may reconnect too early. The server knows it only after the director
// has pushed the workers' account.
func (l *serverLog) Errorf(format string, v ...any) {
	if strings.Contains(format, signInRefused) {
		l.pass(l.log.Warn, format, v)
		return
	}
	l.pass(l.log.Error, format, v)
}
func (l *serverLog) Debugf(string, ...any) {}
func (l *serverLog) Tracef(string, ...any) {}
