package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"retake/internal/bus/wire"
)

// Begin says that an attempt is under way. Called again it adds what was not known before.
func (w *Writer) Begin(m Meta) {
	if m.Outcome == "" {
		m.Outcome = OutcomeRunning
	}
	w.put(auditsDir, 0, func() (string, error) { return w.bundles.begin(m) })
}

// Transition adds a line to the attempt's transitions.jsonl.
func (w *Writer) Transition(t Transition) {
	w.put(auditsDir, 0, func() (string, error) { return w.bundles.transition(t) })
}

// Finish completes the bundle of an attempt that is over. Called again it replaces what was said, but an empty text
// leaves the one that is there.
func (w *Writer) Finish(b Bundle) {
	cost := len(b.WorkerLog) + len(b.BuildLog) + len(b.TestLog) + len(b.Patch)
	w.put(auditsDir, cost, func() (string, error) { return w.bundles.finish(b) })
	w.put(outputsDir, 0, func() (string, error) { return w.bundles.shareSummary(b.AttemptID) })
}

// mostTransitions bounds transitions.jsonl: a worker that is heard and silent in turns for a day stays below.
const mostTransitions = 1 << 20

// begin writes meta.json over what is there.
func (b *bundles) begin(m Meta) (path string, err error) {
	dir, err := attemptFolder(b.dir, m.AttemptID)
	if err != nil {
		return m.AttemptID, err
	}
	path = filepath.Join(dir, metaFile)
	m = cleaned(m, b.o.Redact)
	m.SchemaVersion = MetaSchema
	var before Meta
	switch err := readJSON(path, &before); {
	case err == nil:
		m = over(before, m)
	case !errors.Is(err, fs.ErrNotExist):
		b.problem(path, err) // it is written anew
	}
	if err := b.disk.replaceJSON(path, m); err != nil {
		return path, err
	}
	return path, b.enter(m)
}

// over returns before with everything that m knows. What has ended does not run again.
func over(before, m Meta) Meta {
	out := before
	text, _ := json.Marshal(m)
	var known map[string]json.RawMessage
	_ = json.Unmarshal(text, &known)
	for key, value := range known {
		if v := string(value); v == `""` || v == "0" || v == "null" {
			delete(known, key)
		}
	}
	if m.Outcome == OutcomeRunning && before.Outcome != "" {
		delete(known, "outcome")
	}
	text, _ = json.Marshal(known)
	_ = json.Unmarshal(text, &out)
	if m.Outcome == OutcomeOK {
		out.Failure = nil
	}
	return out
}

func (b *bundles) transition(t Transition) (path string, err error) {
	dir, err := attemptFolder(b.dir, t.AttemptID)
	if err != nil {
		return t.AttemptID, err
	}
	path = filepath.Join(dir, transitionsFile)
	if size, err := sizeOf(path); err != nil || size > mostTransitions {
		return path, err
	}
	if !b.knows(t.AttemptID) { // it began before there was somebody to write it down
		m := Meta{AttemptID: t.AttemptID, Issue: t.Issue, Attempt: t.Attempt, Outcome: OutcomeRunning}
		if path, err := b.begin(m); err != nil {
			return path, err
		}
	}
	line, err := json.Marshal(cleaned(t, b.o.Redact))
	if err != nil {
		return path, err
	}
	return path, b.disk.add(path, append(line, '\n'))
}

// finish writes the texts first, the summary next and meta.json last: an attempt whose meta says how it ended is whole.
func (b *bundles) finish(x Bundle) (path string, err error) {
	dir, err := attemptFolder(b.dir, x.AttemptID)
	if err != nil {
		return x.AttemptID, err
	}
	if x.Outcome == "" {
		x.Outcome = OutcomeOK
		if x.Failure != nil {
			x.Outcome = OutcomeFailed
		}
	}
	for _, text := range []struct{ name, text string }{
		{"worker.log", b.tail(x.WorkerLog)},
		{"build.log", b.tail(x.BuildLog)},
		{"test.log", b.tail(x.TestLog)},
		{patchFile, b.head(x.Patch)},
		{transitionsFile, ""},
	} {
		path = filepath.Join(dir, text.name)
		if _, err := os.Stat(path); text.text == "" && err == nil {
			continue
		}
		if err := b.disk.replace(path, []byte(text.text)); err != nil {
			return path, err
		}
	}
	var before Meta
	_ = readJSON(filepath.Join(dir, metaFile), &before) // begin says what is wrong with it
	shown := cleaned(x, b.o.Redact)
	shown.Meta = over(before, shown.Meta)
	path = filepath.Join(dir, summaryFile)
	summary := b.o.Redact(Summary(shown, readTransitions(filepath.Join(dir, transitionsFile))))
	if err := b.disk.replace(path, []byte(summary)); err != nil {
		return path, err
	}
	return b.begin(x.Meta)
}

// shareSummary puts the summary where whoever works on the task next looks for it.
func (b *bundles) shareSummary(id string) (path string, err error) {
	dir, err := attemptFolder(b.dir, id)
	if err != nil {
		return "", nil //nolint:nilerr // finish has said it
	}
	var m Meta
	if err := readJSON(filepath.Join(dir, metaFile), &m); err != nil {
		return "", nil //nolint:nilerr // finish has said it
	}
	folder, err := taskFolder(m.Issue)
	if err != nil {
		return m.Issue, err
	}
	path = filepath.Join(b.dir, outputsDir, folder, taskSummaryFile)
	text, err := readFile(filepath.Join(dir, summaryFile))
	if err != nil {
		return path, err
	}
	return path, b.disk.replace(path, text)
}

// tail masks a log and keeps its end. More than twice what is kept is not even looked at; the line that this cuts in half
// goes, because half a secret matches nothing.
func (b *bundles) tail(text string) string {
	if most := 2 * b.o.MaxText; len(text) > most {
		text = wire.CutTail(text, most)
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return wire.CutTail(b.o.Redact(text), b.o.MaxText)
}

// head masks a patch and keeps its beginning, in whole lines: the end of one cannot be read without it.
func (b *bundles) head(text string) string {
	const mark = "# cut here: the patch is longer than what is kept\n"
	cut := false
	if most := 2 * b.o.MaxText; len(text) > most {
		text, cut = strings.ToValidUTF8(text[:most], ""), true
	}
	text = b.o.Redact(text)
	if most := b.o.MaxText - len(mark); len(text) > most {
		text, cut = strings.ToValidUTF8(text[:max(most, 0)], ""), true
	}
	if cut {
		text = text[:strings.LastIndexByte(text, '\n')+1] + mark
	}
	return text
}

// readTransitions returns what can be read.
func readTransitions(path string) (out []Transition) {
	data, err := readFile(path)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		var t Transition
		if json.Unmarshal(line, &t) == nil {
			out = append(out, t)
		}
	}
	return out
}
