package prompts

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	ast "text/template/parse"

	"retake/internal/tomlfile"
)

// mostRanges limits the depth of nested {{range}}.
const mostRanges = 2

// noDefinitions explains why the calls that could recurse are missing.
const noDefinitions = "{{define}}, {{block}} and {{template}} are not supported: write the text in place"

// checker checks the types of a template, so that its execution cannot fail and each mistake has a position.
type checker struct {
	text   string
	vars   []variable
	ranges int // {{range}} around the current node
	faults tomlfile.Faults
}

type variable struct {
	name string
	is   reflect.Type
}

// Types of expressions. A nil type belongs to an expression with a reported mistake.
var (
	textType    = reflect.TypeFor[string]()
	numberType  = reflect.TypeFor[int]()
	boolType    = reflect.TypeFor[bool]()
	passageType = reflect.TypeFor[*passage]()
	// mixedType belongs to and/or with different types that can be printed, and otherType to all others.
	mixedType = reflect.TypeFor[any]()
	otherType = reflect.TypeFor[struct{}]()
)

func (c *checker) check(tree *ast.Tree) {
	root := reflect.TypeFor[templateData]()
	c.vars = []variable{{"$", root}}
	c.list(tree.Root, root)
	slices.SortStableFunc(c.faults, func(a, b tomlfile.Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
}

func (c *checker) fault(at ast.Pos, format string, args ...any) {
	before := c.text[:max(min(int(at), len(c.text)), 0)]
	c.faults = append(c.faults, tomlfile.Fault{
		Position: tomlfile.Position{
			Line: strings.Count(before, "\n") + 1, Col: len(before) - strings.LastIndexByte(before, '\n'),
		},
		Text: fmt.Sprintf(format, args...),
	})
}

func (c *checker) list(n *ast.ListNode, dot reflect.Type) {
	if n == nil {
		return
	}
	for _, n := range n.Nodes {
		switch n := n.(type) {
		case *ast.ActionNode:
			c.action(n, dot)
		case *ast.IfNode:
			c.branch(&n.BranchNode, dot)
		case *ast.WithNode:
			c.branch(&n.BranchNode, dot)
		case *ast.RangeNode:
			c.branch(&n.BranchNode, dot)
		case *ast.TextNode, *ast.CommentNode, *ast.BreakNode, *ast.ContinueNode:
		case *ast.TemplateNode:
			c.fault(n.Position(), "%s", noDefinitions)
		default:
			c.fault(n.Position(), "%.60s is not supported", n)
		}
	}
}

func (c *checker) action(n *ast.ActionNode, dot reflect.Type) {
	is := c.pipe(n.Pipe, dot)
	if len(n.Pipe.Decl) > 0 {
		c.declare(n.Pipe, is)
		return
	}
	switch {
	case is == nil || printable(is):
	case is.Kind() == reflect.Slice:
		c.fault(n.Pipe.Position(), "cannot print the list %.60s: use {{range}}", n.Pipe)
	case is.NumField() > 0:
		c.fault(n.Pipe.Position(), "cannot print %.60s: want one of its fields %s", n.Pipe, fieldsOf(is))
	default:
		c.fault(n.Pipe.Position(), "cannot print %.60s", n.Pipe)
	}
}

func printable(is reflect.Type) bool {
	switch is {
	case textType, numberType, boolType, passageType, mixedType:
		return true
	}
	return is.Kind() == reflect.Slice && is.Elem() == textType
}

// branch checks {{if}}, {{with}} and {{range}}.
func (c *checker) branch(n *ast.BranchNode, dot reflect.Type) {
	outside := len(c.vars)
	is, inner := c.pipe(n.Pipe, dot), dot
	switch n.NodeType {
	case ast.NodeWith:
		inner = is
		c.declare(n.Pipe, is)
	case ast.NodeRange:
		inner = c.elements(n.Pipe, is)
		if c.ranges++; c.ranges > mostRanges {
			c.fault(n.Position(), "{{range}} is nested more than %d deep", mostRanges)
		}
		defer func() { c.ranges-- }()
	default:
		c.declare(n.Pipe, is)
	}
	inside := len(c.vars)
	c.list(n.List, inner)
	if c.vars = c.vars[:inside]; n.NodeType == ast.NodeRange {
		c.vars = c.vars[:outside]
	}
	c.list(n.ElseList, dot)
	c.vars = c.vars[:outside]
}

// elements declares the variables of {{range}}, and returns the type of the list's elements.
func (c *checker) elements(p *ast.PipeNode, is reflect.Type) reflect.Type {
	if is != nil && is.Kind() != reflect.Slice {
		c.fault(p.Position(), "cannot range over %.60s, want a list", p)
		is = nil
	}
	if p.IsAssign {
		c.fault(p.Position(), "want := to declare the variables of {{range}}")
	}
	if is != nil {
		is = is.Elem()
	}
	for i, v := range p.Decl {
		each := variable{v.Ident[0], is}
		if i < len(p.Decl)-1 {
			each.is = numberType
		}
		c.vars = append(c.vars, each)
	}
	return is
}

// declare handles the declaration or the assignment of a variable in a pipeline.
func (c *checker) declare(p *ast.PipeNode, is reflect.Type) {
	for _, v := range p.Decl {
		if !p.IsAssign {
			c.vars = append(c.vars, variable{v.Ident[0], is})
		} else if known := c.variable(v); known != nil && is != nil && known != is {
			c.fault(v.Position(), "%s has another type than the value assigned to it", v.Ident[0])
		}
	}
}

func (c *checker) variable(v *ast.VariableNode) reflect.Type {
	for _, known := range slices.Backward(c.vars) {
		if known.name == v.Ident[0] {
			return known.is
		}
	}
	c.fault(v.Position(), "%s is not declared here", v.Ident[0])
	return nil
}

// pipe returns the type of a pipeline.
func (c *checker) pipe(p *ast.PipeNode, dot reflect.Type) (is reflect.Type) {
	for i, cmd := range p.Cmds {
		first := cmd.Args[0]
		if id, ok := first.(*ast.IdentifierNode); ok {
			var args []reflect.Type
			for _, a := range cmd.Args[1:] {
				args = append(args, c.operand(a, dot))
			}
			if i > 0 {
				args = append(args, is)
			}
			is = c.call(id, args)
			continue
		}
		if i > 0 || len(cmd.Args) > 1 {
			c.fault(first.Position(), "%.60s is not a function", first)
			return nil
		}
		is = c.operand(first, dot)
	}
	return is
}

// operand returns the type of an operand.
func (c *checker) operand(n ast.Node, dot reflect.Type) reflect.Type {
	switch n := n.(type) {
	case *ast.DotNode:
		return dot
	case *ast.FieldNode:
		return c.fields(dot, n.Position(), n.Ident, 1)
	case *ast.VariableNode:
		return c.fields(c.variable(n), n.Position(), n.Ident[1:], 0)
	case *ast.ChainNode:
		return c.fields(c.operand(n.Node, dot), n.Position(), n.Field, 0)
	case *ast.PipeNode:
		if len(n.Decl) > 0 {
			c.fault(n.Position(), "cannot declare a variable in parentheses")
		}
		return c.pipe(n, dot)
	case *ast.IdentifierNode:
		return c.call(n, nil)
	case *ast.StringNode:
		if at := strings.IndexFunc(n.Text, forbidden); at >= 0 {
			c.fault(n.Position(), "control character or invalid UTF-8 in %.60s", n)
		}
		return textType
	case *ast.BoolNode:
		return boolType
	case *ast.NumberNode:
		if _, err := strconv.Atoi(n.Text); err != nil {
			c.fault(n.Position(), "%.60s: want a whole number in decimal digits", n)
		}
		return numberType
	}
	c.fault(n.Position(), "%.60s is not supported here", n)
	return nil
}

// fields returns the type of a chain of fields. at is the position of the field with the index first.
func (c *checker) fields(is reflect.Type, at ast.Pos, names []string, first int) reflect.Type {
	if len(names) <= first {
		first = 0
	}
	for _, name := range names[:first] {
		at -= ast.Pos(len(name) + 1)
	}
	for _, name := range names {
		if is == nil {
			return nil
		}
		f, ok := reflect.StructField{}, false
		if is.Kind() == reflect.Struct {
			f, ok = is.FieldByName(name)
		}
		switch {
		case ok && f.IsExported():
		case is.Kind() == reflect.Struct && is.NumField() > 0:
			c.fault(at, "unknown field .%s, want one of %s", name, fieldsOf(is))
			return nil
		default:
			c.fault(at, "unknown field .%s: the value before it has no fields", name)
			return nil
		}
		is, at = f.Type, at+ast.Pos(len(name)+1)
	}
	return is
}

func fieldsOf(t reflect.Type) string {
	var names []string
	for f := range t.Fields() {
		if f.IsExported() {
			names = append(names, "."+f.Name)
		}
	}
	return strings.Join(names, ", ")
}

// call returns the type of a function's result.
func (c *checker) call(id *ast.IdentifierNode, args []reflect.Type) reflect.Type {
	wrong := func(want string) reflect.Type {
		if !slices.Contains(args, nil) {
			c.fault(id.Position(), "%s: want %s", id.Ident, want)
		}
		return nil
	}
	switch n := len(args); id.Ident {
	case "and", "or":
		if n == 0 {
			return wrong("at least one argument")
		}
		return union(args)
	case "not":
		if n != 1 {
			return wrong("one argument")
		}
		return boolType
	case "len":
		if n != 1 || args[0] == nil || args[0].Kind() != reflect.Slice {
			return wrong("one list")
		}
		return numberType
	case "has":
		if n != 2 || args[0] == nil || args[0].Kind() != reflect.Slice || args[0].Elem() != textType ||
			args[1] != textType {
			return wrong("a list of texts and a text")
		}
		return boolType
	case "eq", "ne", "lt", "le", "gt", "ge":
		if n != 2 || args[0] != args[1] || args[0] != textType && args[0] != numberType {
			return wrong("two numbers, or two texts that are not quotations")
		}
		return boolType
	}
	c.fault(id.Position(), "unknown function %q, want one of and, or, not, eq, ne, lt, le, gt, ge, len, has", id.Ident)
	return nil
}

// union returns the type of and/or.
func union(args []reflect.Type) reflect.Type {
	all := args[0]
	for _, is := range args {
		switch {
		case is == nil:
			return nil
		case is == all:
		case all != otherType && printable(all) && printable(is):
			all = mixedType
		default:
			all = otherType
		}
	}
	return all
}
