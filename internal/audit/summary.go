package audit

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// excerpt is how much of a log a summary quotes; the files beside it have the rest.
const excerpt = 2 << 10

// Summary is summary.md: what happened in an attempt, what that means, what was decided and why.
func Summary(b Bundle, transitions []Transition) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# %s, attempt %d: %s\n\n", oneLine(b.Issue), b.Attempt, oneLine(b.Outcome))
	if b.Title != "" {
		fmt.Fprintf(&s, "%s\n\n", oneLine(b.Title))
	}
	for _, row := range summaryRows(b) {
		if row.value != "" {
			fmt.Fprintf(&s, "- **%s**: %s\n", row.name, oneLine(row.value))
		}
	}
	s.WriteString("\n## What happened\n\n")
	if len(transitions) == 0 {
		s.WriteString("No transition was recorded.\n")
	}
	for _, t := range transitions {
		fmt.Fprintf(&s, "- %s %s\n", clock(t.At), oneLine(sentence(t)))
	}
	if f := b.Failure; f != nil {
		about, _ := recovery.Describe(recovery.Reason(f.Reason))
		fmt.Fprintf(&s, "\n## What it means\n\n**%s**: %s.\n\n%s\n", f.Reason, about.Means, fenced(f.Cause)+"\n")
		fmt.Fprintf(&s, "- **Rule**: `%s`, confidence %.2f\n- **Signature**: `%s`\n", oneLine(f.Rule), f.Confidence, oneLine(f.Signature))
		if f.Claim != "" && f.Claim != f.Reason {
			fmt.Fprintf(&s, "- **The worker says**: `%s`\n", oneLine(f.Claim))
		}
		for _, n := range b.Notes {
			fmt.Fprintf(&s, "- %s\n", oneLine(n))
		}
		fmt.Fprintf(&s, "\n## Verdict\n\n**%s**%s: %s\n", oneLine(f.Action), orNothing(" after %s", delay(f.DelaySeconds)), oneLine(f.Why))
		fmt.Fprintf(&s, "\n- **Policy row**: `%s`\n%s", oneLine(f.Row), orNothing("- **Charged to**: %s\n", oneLine(f.Charges)))
		s.WriteString(orNothing("- **Vetoed by**: %s\n", oneLine(f.Veto)) + orNothing("- **Was**: %s\n", oneLine(f.Was)) + orNothing("- **Asked of a person**: %s\n", oneLine(f.Ask)))
	}
	if len(b.Tried) > 0 {
		s.WriteString("\n## Tried inside the attempt\n\n")
		for _, line := range b.Tried {
			fmt.Fprintf(&s, "- %s\n", oneLine(line))
		}
	}
	s.WriteString("\n## Evidence\n")
	shown := map[string]bool{"": true} // a worker prints what its stages print
	for _, log := range []struct{ name, text string }{{"test.log", b.TestLog}, {"build.log", b.BuildLog}, {"worker.log", b.WorkerLog}} {
		if text := strings.TrimSpace(log.text); !shown[text] {
			shown[text] = true
			fmt.Fprintf(&s, "\nThe end of `%s`:\n\n%s\n", log.name, fenced(wire.CutTail(strings.TrimRight(log.text, "\n"), excerpt)))
		}
	}
	fmt.Fprintf(&s, "\nPatch: %s\n", changed(b.Patch))
	return s.String()
}

// begunBy says which verdict began an attempt. The first needs none.
func begunBy(m Meta) string {
	switch {
	case m.Action == "":
		return ""
	case m.Why == "":
		return m.Action
	}
	return m.Action + ", because of " + short(m.Why, mostSeen)
}

type row struct{ name, value string }

func summaryRows(b Bundle) []row {
	exit := ""
	if b.ExitCode != nil {
		exit = fmt.Sprint(*b.ExitCode)
	}
	if b.OOM {
		exit += " (out of memory)"
	}
	rows := []row{
		{"Attempt", b.AttemptID},
		{"Issue", b.URL},
		{"Begun by", begunBy(b.Meta)},
		{"Agent", strings.TrimSpace(b.Agent + " " + b.Model)},
		{"Image", b.Image},
		{"Branch", b.Branch},
		{"Time", span(b.StartedAt, b.EndedAt)},
		{"Stage", b.Stage},
		{"Exit code", exit},
		{"Signal", b.Signal},
	}
	if u := b.Usage; u != nil {
		rows = append(rows, row{"Usage", fmt.Sprintf("%s, %s, %s, %.2f USD", several(u.Tokens, "token"), several(u.PaidCalls, "paid call"), several(u.CacheHits, "cache hit"), u.CostUSD)})
	}
	return rows
}

func span(from, to wire.Time) string {
	switch {
	case from.IsZero() && to.IsZero():
		return ""
	case to.IsZero():
		return "since " + stamp(from)
	case from.IsZero():
		return "until " + stamp(to)
	}
	return fmt.Sprintf("%s, %s long", stamp(from), to.Sub(from.Time).Round(time.Second))
}

func stamp(t wire.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
func clock(t wire.Time) string { return t.UTC().Format("15:04:05") }

func delay(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}

func orNothing(format, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(format, value)
}

// fenced is text as a code block that nothing in it can end.
func fenced(text string) string {
	longest, run := 2, 0
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "\n" + strings.ToValidUTF8(strings.TrimRight(text, "\n"), "\ufffd") + "\n" + fence
}

// changed counts what a unified diff changes.
func changed(patch string) string {
	files, added, removed := 0, 0, 0
	inHunk := false
	for line := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(line, "diff "):
			files, inHunk = files+1, false
		case strings.HasPrefix(line, "@@"):
			inHunk = true
		case inHunk && strings.HasPrefix(line, "+"):
			added++
		case inHunk && strings.HasPrefix(line, "-"):
			removed++
		}
	}
	if files == 0 {
		return "none."
	}
	return fmt.Sprintf("%s, %s added, %d removed; see `%s`.", several(files, "file"), several(added, "line"), removed, patchFile)
}
