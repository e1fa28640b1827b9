package prose

import "regexp"

var (
	// skipsChecks are the words by which CI systems leave out a commit, or the squashed commit of a pull
	// request with such a title: [skip ci], [ci skip], [no ci], [skip actions] and their kin of other systems,
	// ***NO_CI***.
	skipsChecks = regexp.MustCompile(`(?i)\[\s*((?:skip|no)[\s:_-]+[\w-]+|[\w-]+[\s:_-]+skip)\s*\]`)
	noCI        = regexp.MustCompile(`(?i)\b(no_)(ci)\b`)
	// trailer is what says at the end of a message who is behind it, or that nothing is to be checked.
	trailer = regexp.MustCompile(`(?i)\b((?:[a-z]+-)+by|skip-checks|cc|change-id)[ \t]*:`)
	web     = regexp.MustCompile(`(?i)\bhttps?://`)
	// together are what GitHub reads together in plain text: mentions, references, addresses, HTML comments.
	together = regexp.MustCompile(
		`(?i)(@)([a-z0-9_-])|(#)([0-9])|(\bGH-)([0-9])|(\b[a-z][a-z0-9+.-]*:)(//)|(\bwww\.)(\S)|(<!)([->])`)
)

// Plain is a text that is no Markdown (a title, the message of a commit) and closes no issue, mentions nobody,
// links nowhere, names nobody as its author and has no check skipped. An address loses its beginning; what else
// must not be read together is parted by gap.
func Plain(text, gap string) string {
	return together.ReplaceAllString(web.ReplaceAllString(instructsNobody(text, gap), ""), "$1$3$5$7$9$11"+gap+
		"$2$4$6$8${10}${12}")
}

// instructsNobody is text that tells no program what to do with a commit.
func instructsNobody(text, gap string) string {
	text = skipsChecks.ReplaceAllString(text, "($1)")
	text = noCI.ReplaceAllString(text, "${1}"+gap+"${2}")
	return trailer.ReplaceAllString(text, "$1"+gap+":")
}
