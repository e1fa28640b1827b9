package github

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// titleLimit bounds a title of ours, in characters. GitHub refuses more than 256.
const titleLimit = 200

// subjectLimit bounds the first line of a commit message, in characters.
const subjectLimit = 100

var (
	// skipsChecks are the words by which CI systems leave out a commit, or the squashed commit of a pull request with such a title:
	// [skip ci], [ci skip], [no ci], [skip actions] and their kin of other systems, ***NO_CI***.
	skipsChecks = regexp.MustCompile(`(?i)\[\s*((?:skip|no)[\s:_-]+[\w-]+|[\w-]+[\s:_-]+skip)\s*\]`)
	noCI        = regexp.MustCompile(`(?i)\*{2,}\s*(no_ci)\s*\*{2,}`)
	skipTrailer = regexp.MustCompile(`(?i)\b(skip-checks)\s*:`)
	// reference is what names an issue after a closing keyword.
	reference = regexp.MustCompile(`(?i)#(\d)|\bGH-(\d)`)
	issueLink = regexp.MustCompile(`(?i)https?://(\S*/(?:issues|pull)/\d)`)
)

// skipsNothing takes the brackets off the words that make CI systems leave a commit out.
func skipsNothing(text string) string {
	text = skipsChecks.ReplaceAllString(text, "($1)")
	text = noCI.ReplaceAllString(text, "$1")
	return skipTrailer.ReplaceAllString(text, "$1 ")
}

// harmless is cleaned text on one line that skips no checks. It comes before any cut.
func (r redactor) harmless(text string) string {
	return skipsNothing(strings.Join(strings.Fields(r.clean(text)), " "))
}

// title is untrusted text as the title of a pull request, which becomes the subject of its squashed commit.
func (r redactor) title(text string) string {
	return noClosing(r.line(r.harmless(text), titleLimit))
}

// CommitSubject is an issue's title as the first line of a commit message: one line of plain text that closes no issue,
// mentions nobody, carries no secret and has no check skipped, at most 100 characters. A message is not markdown, so what
// must not be read together is parted by a blank that everybody sees.
func (c *Client) CommitSubject(i Issue) string {
	text := c.redactor().harmless(strings.ReplaceAll(i.Title, zeroWidth, ""))
	text = reference.ReplaceAllStringFunc(text, func(ref string) string {
		at := strings.IndexAny(ref, "#-")
		return ref[:at+1] + " " + ref[at+1:]
	})
	text = issueLink.ReplaceAllString(text, "$1")
	text = opening.ReplaceAllString(mention.ReplaceAllString(text, "@ $1"), "<! $1")
	return cmp.Or(clip(text, subjectLimit), fmt.Sprintf("Issue %d", i.Number))
}
