package prompts

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	ast "text/template/parse"

	"retake/internal/agent"
	"retake/internal/recovery/plaintext"
	"retake/internal/tomlfile"
)

// Template is a repository's own prompt for CODE: a text/template with the fields of templateData and the functions of
// Functions. ParseTemplate rejects every template that could fail later. The zero Template is not usable.
type Template struct{ parsed *template.Template }

// MaxTemplate is the maximum size of a template in bytes.
const MaxTemplate = 16 << 10

// maxRaw limits the text that a template produces before composition. No prompt is longer.
const maxRaw = 2 * agent.MaxPrompt

// templateName names a template in the messages of text/template.
const templateName = "prompt"

// ParseTemplate parses and checks a template.
func ParseTemplate(text string) (*Template, tomlfile.Faults) {
	c := &checker{text: text}
	switch at := strings.IndexFunc(text, forbidden); {
	case len(text) > MaxTemplate:
		c.fault(0, "the prompt exceeds the limit of %d bytes", MaxTemplate)
	case strings.TrimSpace(text) == "":
		c.fault(0, "the prompt is empty")
	case at >= 0:
		c.fault(ast.Pos(at), "control character or invalid UTF-8: %q", text[at:at+1])
	}
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	tree, set, err := parseTree(text)
	if err != nil {
		at, message := locate(text, err)
		c.fault(at, "%s", message)
		return nil, c.faults
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if other := set[name]; name != templateName || other != tree {
			begin := strings.LastIndex(text[:min(int(other.Root.Position()), len(text))], "{{")
			c.fault(ast.Pos(begin), "%s", noDefinitions)
		}
	}
	c.check(tree)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	parsed, err := template.New(templateName).Funcs(template.FuncMap{"has": has}).Option("missingkey=error").
		AddParseTree(templateName, tree)
	if err != nil {
		c.fault(0, "%v", err)
	}
	return &Template{parsed}, c.faults
}

// forbidden reports whether a template must not contain a character.
func forbidden(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 || r == '\ufffd'
}

// parseTree parses a template without resolving its functions, because the checker reports their positions. set also
// contains the templates that text defines.
func parseTree(text string) (tree *ast.Tree, set map[string]*ast.Tree, err error) {
	set = map[string]*ast.Tree{}
	tree = ast.New(templateName)
	tree.Mode = ast.SkipFuncCheck
	tree, err = tree.Parse(text, "", "", set)
	return tree, set, err
}

// locate returns the position and the text of a syntax error. The parser reports only the line, so locate parses the
// text again with a line for each action.
func locate(text string, err error) (ast.Pos, string) {
	const left, splitLeft = "{{", "\n{{"
	line, message := syntaxError(err)
	split := strings.ReplaceAll(text, left, splitLeft)
	if _, _, err := parseTree(split); err != nil {
		if n, again := syntaxError(err); again == message {
			at := lineStart(split, n)
			return ast.Pos(at - strings.Count(split[:min(at+len(left), len(split))], splitLeft)), message
		}
	}
	return ast.Pos(lineStart(text, line)), message
}

// syntaxError returns the line and the text of an error of text/template/ast.
func syntaxError(err error) (line int, message string) {
	number, message, _ := strings.Cut(strings.TrimPrefix(err.Error(), "template: "+templateName+":"), ": ")
	line, _ = strconv.Atoi(number) // 0 stands for an unknown line
	for _, mark := range []string{" in action started at ", " started at "} {
		message, _, _ = strings.Cut(message, mark)
	}
	if message == "unexpected EOF" {
		message = "an {{if}}, {{range}} or {{with}} has no {{end}}"
	}
	return line, message
}

func lineStart(text string, line int) (at int) {
	for ; line > 1; line-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return at
		}
		at += i + 1
	}
	return at
}

// Fits returns an error unless the template's own text, without quotations, takes up at most half of a prompt of limit
// bytes. It renders two samples: the first attempt, and an attempt with long texts and lists.
func (p *Template) Fits(limit int) error {
	room := (limit - len(agent.Frame(CodeSample(false)))) / 2
	for _, late := range []bool{false, true} {
		raw, err := p.execute(newTemplateData(CodeSample(late)))
		switch own := ownBytes(raw); {
		case errors.Is(err, errFull) || own > room:
			return errors.New("the prompt's own text, without quotations, has more than " + strconv.Itoa(room) +
				" bytes for a sample issue, which is half of the space that the agent's prompt_bytes allows")
		case err != nil:
			return err
		case own == 0 && raw == "":
			return errors.New("the prompt is empty for a sample issue")
		}
	}
	return nil
}

// errFull reports that a template produced more than maxRaw bytes.
var errFull = errors.New("agent: render template: too much text")

// bounded collects at most maxRaw bytes. It accepts or refuses each write as a whole, so a mark is never cut.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRaw {
		return 0, errFull
	}
	return b.Builder.Write(p)
}

// execute runs the template. Its output has a mark in place of each quotation.
func (p *Template) execute(d *templateData) (string, error) {
	var out bounded
	err := p.parsed.Execute(&out, d)
	return out.String(), err
}

// Render returns the prompt after the frame, in at most room bytes. Quotations take up at most quoted bytes. The notes
// about this attempt follow, unless the template contains the default prompt, which also has them.
func (p *Template) Render(t agent.Task, room, quoted int) string {
	d := newTemplateData(t)
	raw, _ := p.execute(d) // fails only if there is too much text
	var after string
	if !strings.Contains(raw, d.Default.String()) {
		after = agent.Notes(t, quoted/2)
	}
	text := "\n" + d.compose(raw, room-len(after)-1, quoted-len(after)-1)
	return text + after
}

// mostPlaced limits the quotations in one prompt. compose omits further ones.
const mostPlaced = 500

// compose replaces the marks in raw with quotations. They share the space that the template's own text leaves.
func (d *templateData) compose(raw string, room, quoted int) string {
	parts := strings.Split(raw, passageMark) // own texts and numbers of passages alternate
	var sizes []int
	for i := 1; i < len(parts) && len(sizes) < mostPlaced; i += 2 {
		sizes = append(sizes, len(d.passage(parts[i], maxRaw)))
	}
	shares := share(sizes, min(quoted, room-ownBytes(raw)))
	var b strings.Builder
	before := "\n" // the end of the text so far; empty after a quotation
	for i, part := range parts {
		if i%2 == 1 {
			if i/2 >= len(shares) || shares[i/2] == 0 {
				continue
			}
			if !strings.HasSuffix(before, "\n") && before != "" {
				b.WriteString("\n")
			}
			b.WriteString(d.passage(part, shares[i/2]))
			before = ""
			continue
		}
		own := plaintext.Clean(agent.LineEnds.Replace(part))
		if i < len(parts)-1 {
			own = strings.TrimRight(own, " \t")
		}
		if before == "" {
			own = strings.TrimPrefix(own, "\n")
		}
		b.WriteString(own)
		before = cmp.Or(own, before)
	}
	text := b.String()
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return agent.CutLines(text, room)
}

// ownBytes returns the size of the template's own text, with a line feed around each quotation.
func ownBytes(raw string) (n int) {
	for i, part := range strings.Split(raw, passageMark) {
		if i%2 == 0 {
			n += len(part) + 1
		}
	}
	return n - 1
}

// share divides room equally among texts of the given sizes. Long texts also get the room that short texts do not need.
func share(sizes []int, room int) []int {
	shares, order := make([]int, len(sizes)), make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[a], sizes[b]) })
	room = max(room, 0)
	for n, i := range order {
		shares[i] = min(sizes[i], room/(len(order)-n))
		room -= shares[i]
	}
	return shares
}
