package project

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Converted is another orchestrator's configuration as a contract.
type Converted struct {
	Draft
	Prompt string   // template of the prompt, for PromptFile; empty if it could not be converted
	Left   []string // keys without a counterpart, as file:line: key: reason
}

// leaf is a value or a list of values in a YAML document.
type leaf struct {
	path string // keys, separated by dots
	line int
	list []string // one element for a single value
}

func (l leaf) text() string { return strings.Join(l.list, "\n") }

// conversion is a conversion in progress.
type conversion struct {
	Converted
	file   string
	leaves []leaf
	agent  string // section of the chosen agent, such as codex
	hooks  float64
}

// Convert converts a WORKFLOW.md with YAML front matter, or a detent.yaml.
func Convert(file string) (Converted, error) {
	data, err := read(file, mostRead)
	switch {
	case err != nil:
		return Converted{}, err
	case len(data) > mostRead:
		return Converted{}, fmt.Errorf("%s exceeds the limit of %d bytes", file, mostRead)
	}
	front, body, line, err := split(file, data)
	if err != nil {
		return Converted{}, fmt.Errorf("%s: %w", file, err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(front, &doc); err != nil {
		return Converted{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return Converted{}, fmt.Errorf("%s: no keys found, want YAML keys, in a WORKFLOW.md between two lines of --- "+
			"at the beginning", file)
	}
	c := &conversion{file: file}
	c.From = filepath.Base(file)
	c.flatten("", doc.Content[0], line)
	c.convert()
	c.prompt(body)
	return c.Converted, nil
}

// split separates the front matter of a Markdown file from its body. line is the number of lines before the YAML text.
func split(file string, data []byte) (front []byte, body string, line int, err error) {
	data = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	rest, fenced := bytes.CutPrefix(data, []byte("---\n"))
	if ext := strings.ToLower(filepath.Ext(file)); ext == ".yaml" || ext == ".yml" {
		return data, "", 0, nil
	}
	if !fenced {
		return nil, "", 0, errors.New("no front matter found, want YAML between lines of --- at the beginning")
	}
	front, after, closed := bytes.Cut(rest, []byte("\n---\n"))
	if !closed {
		if front, closed = bytes.CutSuffix(rest, []byte("\n---")); !closed {
			return nil, "", 0, errors.New("the front matter has no end, want a second line of ---")
		}
	}
	return front, strings.TrimSpace(string(after)), 1, nil
}

// flatten lists the leaves of a table.
func (c *conversion) flatten(path string, n *yaml.Node, above int) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.flatten(join(path, n.Content[i].Value), n.Content[i+1], above)
		}
	case yaml.SequenceNode:
		l := leaf{path: path, line: n.Line + above}
		for i, e := range n.Content {
			if e.Kind != yaml.ScalarNode {
				c.flatten(fmt.Sprintf("%s[%d]", path, i), e, above)
				continue
			}
			l.list = append(l.list, e.Value)
		}
		if len(l.list) > 0 || len(n.Content) == 0 {
			c.leaves = append(c.leaves, l)
		}
	case yaml.ScalarNode:
		c.leaves = append(c.leaves, leaf{path, n.Line + above, []string{n.Value}})
	default: // an alias
		c.leaves = append(c.leaves, leaf{path: path, line: n.Line + above})
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// value returns the text of a key, or "".
func (c *conversion) value(path string) string {
	for _, l := range c.leaves {
		if l.path == path {
			return l.text()
		}
	}
	return ""
}

// leave notes a key that could not be converted.
func (c *conversion) leave(l leaf, reason string) {
	c.Left = append(c.Left, fmt.Sprintf("%s:%d: %s: %s", c.file, l.line, l.path, reason))
}

// convert converts the leaves in the file's order. A section without any key that a contract could have is noted once.
func (c *conversion) convert() {
	c.chooseAgent()
	c.hooks = milliseconds(c.value("hooks.timeout_ms"))
	noted := map[string]bool{}
	for _, l := range c.leaves {
		section, _, _ := strings.Cut(strings.ReplaceAll(l.path, "[", "."), ".")
		if to, known := c.handler(l.path); known {
			if reason := to(c, l); reason != "" {
				c.leave(l, reason)
			}
			continue
		}
		if reason, foreign := foreign[section]; foreign {
			if !noted[section] {
				c.leave(leaf{path: section, line: l.line}, reason)
			}
			noted[section] = true
			continue
		}
		c.leave(l, "a contract has no such key")
	}
}

// handler returns the function that converts a key.
func (c *conversion) handler(path string) (func(*conversion, leaf) string, bool) {
	if to, ok := handlers[path]; ok {
		return to, true
	}
	if path == "image" || strings.HasSuffix(path, ".image") {
		return func(c *conversion, l leaf) string { c.Image = l.text(); return "" }, true
	}
	section, key, _ := strings.Cut(path, ".")
	if _, isAgent := agents[section]; isAgent && section != "agent" {
		if to, ok := ofAgent[key]; ok {
			return to, true
		}
	}
	return nil, false
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
