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

// Limits on the server's lines in the director's log. Clients can cause some of these lines at any rate, and control
// part of their text.
const (
	linesPerSecond = 1  // for each kind of line
	linesAtOnce    = 10 // burst for each kind of line
	maxLine        = 512
)

// signInRefused occurs in every line about a refused sign-in.
const signInRefused = "authentication error"

// kinds lists words from lines that a client can cause at will. The last entry, "", stands for all other lines.
// serverLog samples each kind separately, so a flood of one kind does not suppress other lines.
var kinds = []string{
	"Publish Violation", "Subscription Violation", signInRefused, "Slow Consumer", "maximum payload",
	"maximum subscriptions", "Parser ERROR", "",
}

// number matches the connection number in a line. It does not match after a quotation mark, because clients choose the
// quoted text.
var number = regexp.MustCompile(`^[^"]{1,128}? - cid:(\d+)\b`)

// serverLog logs a sample of the server's warnings and errors, and all other lines at debug level. The server calls it
// from many goroutines.
type serverLog struct {
	log     *zap.Logger
	refused atomic.Pointer[func(connection uint64)]
	paces   []pace // in the order of kinds
}

// pace limits the rate of lines of one kind.
type pace struct {
	limit   *rate.Limiter
	skipped atomic.Uint64 // lines since the last logged line
}

func newServerLog(log *zap.Logger) *serverLog {
	l := &serverLog{log: log, paces: make([]pace, len(kinds))}
	for i := range l.paces {
		l.paces[i].limit = rate.NewLimiter(linesPerSecond, linesAtOnce)
	}
	return l
}

// pass logs a line unless too many of its kind came recently. It formats only the lines that it logs.
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

// Errorf logs a server error. A refused sign-in is only a warning, because a worker may reconnect before the director
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
