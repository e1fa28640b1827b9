package pages

import "testing"

// TestReadsQuestionsOfEarlierReleases checks that a reminder can quote a question under the former heading.
func TestReadsQuestionsOfEarlierReleases(t *testing.T) {
	for _, heading := range []string{"What to do:", "Next steps:"} {
		body := "### Retake needs a human: the agent has a question\n\n" +
			"**" + heading + "** Answer the question below.\n\n" +
			"**The agent asks:**\n\n> A or B?\n> \n> Both work.\n\n`needs_human` in `CODE`, attempt `k3v9qx2m-2`\n"
		if got, want := TitleOf(body), "the agent has a question"; got != want {
			t.Errorf("%s title %q, want %q", heading, got, want)
		}
		if got, want := QuestionOf(body), "A or B?\n\nBoth work."; got != want {
			t.Errorf("%s question %q, want %q", heading, got, want)
		}
	}
}
