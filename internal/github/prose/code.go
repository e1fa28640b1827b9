package prose

import (
	"regexp"
	"strings"
)

var (
	backticks = regexp.MustCompile("`+")
	anyBlank  = regexp.MustCompile(`[\n\t]`)
)

// Code renders text as inline code. Backticks in the text cannot end the code.
func (s Style) Code(text string) string {
	text = anyBlank.ReplaceAllString(s.parted(text), " ")
	if strings.TrimSpace(text) == "" {
		return ""
	}
	if s.Cell {
		text = strings.ReplaceAll(strings.ReplaceAll(text, `\|`, `\`+Gap+`|`), "|", `\|`)
	}
	ticks := strings.Repeat("`", longest(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || strings.HasPrefix(text, " ") &&
		strings.HasSuffix(text, " ") {
		text = " " + text + " "
	}
	return ticks + text + ticks
}

// Fence renders text as a code block. Backticks in the text cannot end the block.
func (s Style) Fence(text string) string {
	ticks := strings.Repeat("`", max(3, longest(text)+1))
	return ticks + "text\n" + s.parted(text) + "\n" + ticks
}

// parted returns the text for use in code. In a message, it inserts a Gap into each token that GitHub would interpret.
func (s Style) parted(text string) string {
	if s.Message {
		return Plain(text, Gap)
	}
	return text
}

// longest returns the length of the longest sequence of backticks.
func longest(text string) int {
	n := 0
	for _, row := range backticks.FindAllString(text, -1) {
		n = max(n, len(row))
	}
	return n
}
