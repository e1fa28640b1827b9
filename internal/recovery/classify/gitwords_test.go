package classify

import (
	"testing"

	"retake/internal/gitwords"
	"retake/internal/recovery"
)

// alike maps a reason to an equivalent one. For both reasons, the director waits and tries again.
var alike = map[recovery.Reason]recovery.Reason{recovery.Overloaded: recovery.NetworkTransient}

// TestGitWordsMeanTheSame checks that the classifier agrees with the table gitwords, by which the director reads the
// output of git. It classifies the examples of that table as the output of a command.
func TestGitWordsMeanTheSame(t *testing.T) {
	c := newClassifier(t)
	for _, row := range gitwords.Rows {
		if _, ok := recovery.Describe(recovery.Reason(row.Reason)); !ok || len(row.Examples) == 0 {
			t.Errorf("%s: reason %q, %d examples", row.Meaning, row.Reason, len(row.Examples))
		}
		for _, said := range row.Examples {
			if m := gitwords.Read(said); m != row.Meaning {
				t.Errorf("%q is %s to the director, want %s", said, m, row.Meaning)
			}
			f := c.Classify(recovery.Evidence{Stderr: said + "\n", ExitCode: exit(128), Tool: "git"})
			if string(f.Reason) != row.Reason && string(alike[f.Reason]) != row.Reason && !row.DirectorOnly {
				t.Errorf("%q is %s by %s, want %s", said, f.Reason, f.Rule, row.Reason)
			}
		}
	}
}
