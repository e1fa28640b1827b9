package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	pelletier "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// position of a key in the file; both from 1, columns in bytes.
type position struct{ line, col int }

// syntaxError is where and why the file is no TOML.
type syntaxError struct {
	position
	text string
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join appends a key to a path, so that no two paths look the same: a key with odd characters is quoted.
func join(path, key string) string {
	if !bareKey.MatchString(key) {
		key = strconv.QuoteToASCII(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// positions finds where every key stands: "director.max_workers", "stage[0].run". It also bounds the nesting (the other
// parser doesn't) and is the first to say that something is no TOML.
func positions(data []byte) (map[string]position, *syntaxError) {
	var ignored map[string]any
	if err := pelletier.Unmarshal(data, &ignored); err != nil {
		var d *pelletier.DecodeError
		if errors.As(err, &d) {
			line, col := d.Position()
			return nil, &syntaxError{position{line, col}, strings.TrimPrefix(d.Error(), "toml: ")}
		}
		return nil, &syntaxError{position{1, 1}, err.Error()}
	}
	x := index{parser: &unstable.Parser{}, at: map[string]position{}, elements: map[string]int{}}
	x.parser.Reset(data)
	path := ""
	for x.parser.NextExpression() {
		switch e := x.parser.Expression(); e.Kind {
		case unstable.Table:
			path = x.header(e, false)
		case unstable.ArrayTable:
			path = x.header(e, true)
		case unstable.KeyValue:
			x.keyValue(path, e)
		}
	}
	if err := x.parser.Error(); err != nil { // can't be: the same parser was content above
		return nil, &syntaxError{position{1, 1}, err.Error()}
	}
	return x.at, nil
}

type index struct {
	parser   *unstable.Parser
	at       map[string]position
	elements map[string]int // of [[path]]: how many so far
}

func (x *index) note(path string, n *unstable.Node) {
	if _, ok := x.at[path]; !ok {
		s := x.parser.Shape(n.Raw).Start
		x.at[path] = position{s.Line, s.Column}
	}
}

// header notes the keys of [a.b] or [[a.b]] and returns the path that they lead to.
func (x *index) header(e *unstable.Node, array bool) string {
	path := ""
	for it := e.Key(); it.Next(); {
		path = join(path, string(it.Node().Data))
		x.note(path, it.Node())
		if array && it.IsLast() {
			x.elements[path]++
		}
		if n := x.elements[path]; n > 0 {
			path = fmt.Sprintf("%s[%d]", path, n-1)
			x.note(path, it.Node())
		}
	}
	return path
}

func (x *index) keyValue(path string, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		path = join(path, string(it.Node().Data))
		x.note(path, it.Node())
	}
	x.value(path, e.Value())
}

// value notes the keys of inline tables, also those in lists.
func (x *index) value(path string, v *unstable.Node) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			x.keyValue(path, it.Node())
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); i++ {
			element := fmt.Sprintf("%s[%d]", path, i)
			if it.Node().Raw.Length > 0 {
				x.note(element, it.Node())
			}
			x.value(element, it.Node())
		}
	}
}
