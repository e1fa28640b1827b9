package main

import (
	"bytes"
	"regexp"
	"strings"
)

// The check skips tables that a test generates from the code, because their strings already count in the code.
var (
	generated  = regexp.MustCompile(`^<!-- (?:generated: )?([a-z_-]+)(?:: .*)? -->$`)
	listItem   = regexp.MustCompile(`^\s*([-*+]|[0-9]+\.)\s+`)
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	markup     = strings.NewReplacer("**", "", "__", "", "<br>", " ")
)

// isDocument distinguishes prose from the expected outputs of tests.
func isDocument(name string) bool {
	return strings.HasSuffix(name, ".md") && !strings.Contains(name, "testdata/") &&
		!strings.HasPrefix(name, "docs/examples/")
}

// proseOf extracts the paragraphs, list items and table cells of a Markdown file. It skips code, generated parts and
// template actions.
func proseOf(src []byte) (s sentences) {
	var paragraph []string
	first, fence, skip := 0, "", ""
	flush := func() {
		text := inlineCode.ReplaceAllString(strings.Join(paragraph, " "), "code")
		s.add(first, markup.Replace(link.ReplaceAllString(text, "$1")))
		paragraph = nil
	}
	for i, raw := range bytes.Split(src, []byte("\n")) {
		line := strings.TrimSpace(string(raw))
		switch {
		case fence != "":
			if strings.HasPrefix(line, fence) {
				fence = ""
			}
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			flush()
			fence = line[:3]
		case skip != "":
			name := strings.Trim(line, "<>!-/ ")
			if strings.HasPrefix(line, "<!--") && (name == skip || strings.HasPrefix(name, "end")) {
				skip = ""
			}
		case strings.HasPrefix(line, "<!-- "):
			flush()
			if strings.HasPrefix(line, "<!-- Made from") { // the whole file is generated
				return s
			}
			if m := generated.FindStringSubmatch(line); m != nil {
				skip = m[1]
			}
		case line == "", strings.HasPrefix(line, "{{"):
			flush()
		case strings.HasPrefix(line, "|"):
			flush()
			for _, cell := range strings.Split(inlineCode.ReplaceAllString(line, "code"), "|") {
				first, paragraph = i+1, []string{cell}
				flush()
			}
		default:
			if listItem.MatchString(line) || strings.HasPrefix(line, "#") {
				flush()
			}
			if len(paragraph) == 0 {
				first = i + 1
			}
			paragraph = append(paragraph, strings.TrimLeft(listItem.ReplaceAllString(line, ""), "#> "))
			if strings.HasPrefix(line, "#") {
				flush()
			}
		}
	}
	flush()
	return s
}
