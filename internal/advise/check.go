package advise

import (
	"fmt"
	"io"
	"strings"

	"retake/internal/recovery/policy"
)

// Checked is a policy with the results of its check.
type Checked struct {
	Name     string         // the file as given, or the preset
	Policy   *policy.Policy // nil if the policy was refused
	Faults   []policy.Fault
	Warnings []string // settings that the configuration overrides
	Limits   string   // describes the source of the limits
}

// CheckPolicy prints the faults and warnings of a policy, and notes which base rows are unused because others decide
// first. ok is false if the policy has faults.
func CheckPolicy(c Checked, out io.Writer) (ok bool, err error) {
	var b strings.Builder
	for _, f := range c.Faults {
		paragraph(&b, f.String())
	}
	Warn(c.Warnings, &b)
	if c.Policy != nil {
		for _, r := range c.Policy.Standings() {
			if len(r.By) > 0 && !r.Own {
				paragraph(&b, "note: "+r.Name+" is unused, because "+strings.Join(r.By, ", ")+" takes precedence")
			}
		}
	}
	switch n := len(c.Faults); {
	case n == 0:
		fmt.Fprintf(&b, "%s: ok, with %s\n", c.Name, c.Limits)
	case c.Policy == nil:
		fmt.Fprintf(&b, "%s: refused\n", c.Name)
	default:
		fmt.Fprintf(&b, "%s: works, but see the notes above; with %s\n", c.Name, c.Limits)
	}
	_, err = io.WriteString(out, b.String())
	return err == nil && len(c.Faults) == 0, err
}

// Warn prints warnings.
func Warn(warnings []string, b *strings.Builder) {
	for _, w := range warnings {
		paragraph(b, "warning: "+w)
	}
}

// terminal is the assumed terminal width.
const terminal = 100

// paragraph prints a line, wrapped to the terminal width.
func paragraph(b *strings.Builder, line string) {
	for _, l := range wrap(line, terminal) {
		b.WriteString(l + "\n")
	}
}
