package pages

import (
	"cmp"
	"fmt"
	"strings"

	"retake/internal/github/prose"
)

// titleLimit bounds a title of ours, in characters. GitHub refuses more than 256.
const titleLimit = 200

// subjectLimit bounds the first line of a commit message, in characters.
const subjectLimit = 100

// Title is untrusted text as the title of a pull request or an issue, which is no markdown. A pull request's
// becomes the subject of its squashed commit.
func (r Cleaner) Title(text string) string {
	return prose.Clip(prose.Plain(strings.Join(strings.Fields(r.Clean(text)), " "), prose.Gap), titleLimit)
}

// CommitSubject is an issue's title as the first line of a commit message: one line of plain text that closes
// no issue, mentions nobody, links nowhere, carries no secret and has no check skipped, at most 100 characters.
// What must not be read together is parted by a blank that everybody sees.
func (c *Text) CommitSubject(title string, number int) string {
	text := strings.Join(strings.Fields(c.Cleaner().Clean(title)), " ")
	return cmp.Or(prose.Clip(prose.Plain(text, " "), subjectLimit), fmt.Sprintf("Issue %d", number))
}
