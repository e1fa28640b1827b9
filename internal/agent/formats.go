package agent

import "slices"

// format is how one family of CLIs speaks.
type format struct {
	name   string
	about  string
	object func(*Reader, object)
	words  func(*Reader, string) // lines that are no JSON; nil: they say nothing
	end    func(*Reader)         // the stream has ended; nil: that says nothing
}

// formats: a new one is one row. The names of fields are those of the versions that agents.toml names.
var formats = []format{
	{"claude", "claude-code's stream-json, and qwen-code's, also as one list", claude, nil, nil},
	{"cline", "cline --json", cline, nil, nil},
	{"codex", "codex exec --json", codex, codexWords, nil},
	{"continue", "cn --format json: one object at the end", cn, nil, nil},
	{"copilot", "copilot --output-format json", copilot, nil, nil},
	{"gemini", "gemini's stream-json, and the object that its json mode ends with", gemini, geminiWords, nil},
	{"opencode", "opencode run --format json", opencode, nil, nil},
	{"pi", "pi --mode json", pi, nil, nil},
	{"retake", "lines for wrappers of your own", own, nil, nil},
	{"text", "no JSON: all that is printed is the answer", nothing, remember, wholeText},
}

// Formats are the names of all formats.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for _, f := range formats {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}

// FormatRow is a format for people.
type FormatRow struct{ Name, About string }

// FormatTable lists all formats.
func FormatTable() []FormatRow {
	rows := make([]FormatRow, 0, len(formats))
	for _, f := range formats {
		rows = append(rows, FormatRow{f.name, f.about})
	}
	return rows
}

func nothing(r *Reader, _ object) { r.state.text = "{…}" }

func remember(r *Reader, words string) { r.state.add(words + "\n") }

func wholeText(r *Reader) { r.final(true, r.state.text) }

// add lets the answer so far grow, up to what is kept of it.
func (s *state) add(text string) {
	if room := maxAnswer - len(s.text); room > 0 {
		s.text += text[:min(len(text), room)]
	}
}
