package server

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Refused actions of a client cost only a few lines in the director's log, regardless of their number and length.
func TestRefusalsTakeAFewLines(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	l := newServerLog(zap.New(core))
	var told int
	count := func(connection uint64) {
		if connection != 7 {
			t.Fatalf("connection %d", connection)
		}
		told++
	}
	l.refused.Store(new(count))
	long := strings.Repeat("x", 4000)
	for range 10_000 {
		l.Errorf(`127.0.0.1:4000 - cid:7 - "v1:\" - cid:8 - " - Publish Violation - Subject %q`, long)
		l.Errorf("127.0.0.1:4000 - cid:7 - Subscription Violation - Subject " + long)
	}
	l.Errorf("the disk is full")
	if n := logged.FilterMessage("nats: the disk is full").Len(); n != 1 {
		t.Errorf("the line about the disk was logged %d times", n)
	}
	if n := logged.Len(); n > 2*(linesAtOnce+5)+1 || told != 20_000 {
		t.Errorf("%d lines, %d counted", n, told)
	}
	for _, e := range logged.All() {
		if len(e.Message) > maxLine+20 {
			t.Errorf("a line of %d bytes", len(e.Message))
		}
	}
}
