package pages

import (
	"cmp"
	"fmt"
	"strings"

	"retake/internal/github/prose"
)

// titleLimit is the maximum length of our titles, in characters. GitHub accepts at most 256.
const titleLimit = 200

// subjectLimit is the maximum length of a commit message's first line, in characters.
const subjectLimit = 100

// Title renders untrusted text as the title of a pull request or an issue, which GitHub does not parse as Markdown. If
// the pull request is squashed, its title becomes the subject of the commit.
func (r Cleaner) Title(text string) string {
	return prose.Clip(prose.Plain(strings.Join(strings.Fields(r.Clean(text)), " "), prose.Gap), titleLimit)
}

// CommitSubject renders an issue's title as the first line of a commit message. The result is one line of plain text
// with at most 100 characters. It cannot close issues, notify people, create links, reveal secrets, or skip checks. A
// space splits the tokens that GitHub would interpret, such as mentions.
func (c *Text) CommitSubject(title string, number int) string {
	text := strings.Join(strings.Fields(c.Cleaner().Clean(title)), " ")
	return cmp.Or(prose.Clip(prose.Plain(text, " "), subjectLimit), fmt.Sprintf("Issue %d", number))
}
