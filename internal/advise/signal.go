package advise

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// otherNames maps signal names that only some systems use to the usual names.
var otherNames = map[string]string{"SIGIOT": "SIGABRT", "SIGCLD": "SIGCHLD", "SIGPOLL": "SIGIO", "SIGUNUSED": "SIGSYS"}

// firstRealTime and lastRealTime bound the real-time signals, which have numbers but no names.
const firstRealTime, lastRealTime = 34, 64

// readSignal reads a number, or a name with or without SIG, in any case. 0 and "" mean no signal.
func readSignal(raw json.RawMessage, to *string) bool {
	word := string(raw)
	if raw[0] == '"' && !decode(raw, &word) {
		return false
	}
	word = strings.ToUpper(strings.TrimSpace(word))
	if n, err := strconv.Atoi(strings.TrimPrefix(word, "SIG")); err == nil { // workers write real-time signals as SIG40
		return nameOf(n, to)
	}
	if word == "" {
		*to = ""
		return true
	}
	if !strings.HasPrefix(word, "SIG") {
		word = "SIG" + word
	}
	*to = cmp.Or(otherNames[word], word)
	return unix.SignalNum(*to) != 0 || strings.HasPrefix(word, "SIGRTMIN") || strings.HasPrefix(word, "SIGRTMAX")
}

func nameOf(n int, to *string) bool {
	*to = unix.SignalName(syscall.Signal(n))
	if n >= firstRealTime && n <= lastRealTime {
		*to = "SIGRTMIN+" + strconv.Itoa(n-firstRealTime)
	}
	return *to != "" || n == 0
}
