package prose

import "regexp"

var (
	// skipsChecks matches the words that make CI systems skip a commit, whether in its message or in the title of a
	// squashed pull request. Examples are [skip ci], [ci skip], [no ci] and [skip actions]. noCI matches ***NO_CI***.
	skipsChecks = regexp.MustCompile(`(?i)\[\s*((?:skip|no)[\s:_-]+[\w-]+|[\w-]+[\s:_-]+skip)\s*\]`)
	noCI        = regexp.MustCompile(`(?i)\b(no_)(ci)\b`)
	// trailer matches the keys of commit message trailers that name people, skip checks or instruct tools.
	trailer = regexp.MustCompile(
		`(?i)\b((?:[a-z]+-)+by|skip-checks|cc|change-id|release-as|depends-on|changelog)[ \t]*:`)
	// release matches words that make release tools bump the major version or replace commit messages.
	release = regexp.MustCompile(`(?i)\b(breaking)([ -]change)|\b((?:begin|end)_)(commit_override|nested_commit)`)
	// chatCommand matches commands that bots read at the start of a line, such as /approve and bors r+.
	chatCommand = regexp.MustCompile(`(?im)^([ \t]*)(?:(/)([a-z][\w-]*(?:[ \t]|$))|(bors)([ \t]+\S))`)
	// folds matches the words that make git rebase --autosquash fold a commit into an earlier one.
	folds = regexp.MustCompile(`(?m)^([ \t]*(?:fixup|squash|amend))!`)
	web   = regexp.MustCompile(`(?i)\bhttps?://`)
	// together matches tokens that GitHub recognizes even in plain text, such as mentions, references, URLs and HTML
	// comments.
	together = regexp.MustCompile(
		`(?i)(@)([a-z0-9_-])|(#)([0-9])|(\bGH-)([0-9])|(\b[a-z][a-z0-9+.-]*:)(//)|(\bwww\.)(\S)|(<!)([->])`)
)

// Plain renders text for a title or a commit message, where Markdown does not apply. The text cannot close issues,
// mention people, link, name authors, skip checks, or instruct release programs and bots. Plain removes the scheme of
// URLs, and splits other tokens with gap.
func Plain(text, gap string) string {
	return together.ReplaceAllString(web.ReplaceAllString(instructsNobody(text, gap), ""), "$1$3$5$7$9$11"+gap+
		"$2$4$6$8${10}${12}")
}

// instructsNobody disables a text's instructions to programs that read commits.
func instructsNobody(text, gap string) string {
	text = skipsChecks.ReplaceAllString(text, "($1)")
	text = noCI.ReplaceAllString(text, "${1}"+gap+"${2}")
	text = release.ReplaceAllString(text, "$1$3"+gap+"$2$4")
	text = folds.ReplaceAllString(text, "$1"+gap+"!")
	text = chatCommand.ReplaceAllString(text, "$1$2$4"+gap+"$3$5")
	return trailer.ReplaceAllString(text, "$1"+gap+":")
}
