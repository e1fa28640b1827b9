package wire

import (
	"crypto/hmac"
	"encoding/json"
	"strings"
)

// StageMark is a line that a worker prints on its stdout and stderr before the output of a stage. The worker signs it
// with the attempt's key. Stage programs do not know this key, so a mark that they print counts as ordinary output.
type StageMark struct {
	N     int    `json:"n"` // number of the mark on its stream: 1, 2, …; a repeated mark does not count
	At    Time   `json:"at"`
	Stage string `json:"stage"`
	Run   int    `json:"run"` // number of the stage's run: 1, 2, …
}

// StageMarkPrefix is the prefix of every mark.
const StageMarkPrefix = "retake-stage: "

// Names of a worker's streams.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
)

// Line returns the line that the worker prints on a stream, with a newline. It returns an empty string if key is empty.
func (m StageMark) Line(key []byte, worker, stream string) string {
	text, err := json.Marshal(m)
	if err != nil || len(key) == 0 {
		return ""
	}
	return StageMarkPrefix + stageMarkMAC(key, worker, stream, text) + " " + string(text) + "\n"
}

// ReadStageMark reads a line of a stream, without its newline. It returns false if the line is not a mark of this
// worker for this stream.
func ReadStageMark(line string, key []byte, worker, stream string) (m StageMark, ok bool) {
	rest, marked := strings.CutPrefix(line, StageMarkPrefix)
	said, text, _ := strings.Cut(rest, " ")
	if !marked || len(key) == 0 || !hmac.Equal([]byte(said), []byte(stageMarkMAC(key, worker, stream, []byte(text)))) {
		return m, false
	}
	return m, json.Unmarshal([]byte(text), &m) == nil
}

// WithoutStageMarks removes all lines that begin with StageMarkPrefix, even if their signature is wrong.
func WithoutStageMarks(output []byte) []byte {
	if !strings.Contains(string(output), StageMarkPrefix) {
		return output
	}
	var b strings.Builder
	for line := range strings.Lines(string(output)) {
		if !strings.HasPrefix(line, StageMarkPrefix) {
			b.WriteString(line)
		}
	}
	return []byte(b.String())
}

func stageMarkMAC(key []byte, worker, stream string, text []byte) string {
	return signatureText.EncodeToString(mac(key, []byte("retake stage mark/1\n"+worker+"\n"+stream+"\n"+string(text))))
}
