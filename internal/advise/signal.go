package advise

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// signals are Linux's names, by number.
var signals = []string{
	1: "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV",
	"SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU",
	"SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
}

// otherNames are those that some systems have for the same signals.
var otherNames = map[string]string{"SIGIOT": "SIGABRT", "SIGCLD": "SIGCHLD", "SIGPOLL": "SIGIO", "SIGUNUSED": "SIGSYS"}

// firstRealTime and lastRealTime bound the signals that have numbers only.
const firstRealTime, lastRealTime = 34, 64

// readSignal reads a name, with or without SIG and in any case, or a number; 0 and "" are no signal.
func readSignal(raw json.RawMessage, to *string) bool {
	word := string(raw)
	if raw[0] == '"' && !decode(raw, &word) {
		return false
	}
	word = strings.ToUpper(strings.TrimSpace(word))
	if n, err := strconv.Atoi(strings.TrimPrefix(word, "SIG")); err == nil { // workers write SIG40
		return nameOf(n, to)
	}
	if word == "" {
		*to = ""
		return true
	}
	if !strings.HasPrefix(word, "SIG") {
		word = "SIG" + word
	}
	if other, ok := otherNames[word]; ok {
		word = other
	}
	*to = word
	return slices.Contains(signals, word) || strings.HasPrefix(word, "SIGRTMIN") || strings.HasPrefix(word, "SIGRTMAX")
}

func nameOf(n int, to *string) bool {
	switch {
	case n >= 0 && n < len(signals):
		*to = signals[n]
	case n >= firstRealTime && n <= lastRealTime:
		*to = "SIGRTMIN+" + strconv.Itoa(n-firstRealTime)
	default:
		return false
	}
	return true
}
