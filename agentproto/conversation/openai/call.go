package openai

import (
	"cmp"
	"slices"
	"strings"
)

// A piecemeal is a part of a call, as a service sends it. Every field may be empty.
type piecemeal struct{ index, id, name, args string }

// A call is a call of the model, assembled from its parts.
type call struct {
	index, id, name string
	args            strings.Builder

	// How far the arguments have been read, if they are an object.
	depth           int // nesting of braces and brackets
	quoted, escaped bool
	begun, other    bool // whether the text began with a brace, or with something else

	again bool // the name was repeated after the arguments were complete
}

// newCall returns a call whose first part is p.
func newCall(p *piecemeal) *call {
	c := &call{index: p.index, id: p.id, name: p.name}
	c.write(p.args)
	return c
}

// place adds a part to its call, or begins a new call with it.
//
// By the interface, an index distinguishes calls and only the first part of a call has an id and a name. Some services leave out
// the index or give every call index 0, repeat the id and the name in each part, make up an id for each part, or split names.
// They all send the arguments of a call after its name, and the arguments are an object: when it is closed, the call is complete.
func place(calls []*call, p *piecemeal, tools []string) []*call {
	c := find(calls, p)
	switch {
	case c == nil:
		return append(calls, newCall(p))
	case c.endsBefore(p, tools):
		next := newCall(p)
		if next.name == "" && c.again {
			next.name = c.name
		}
		c.again = false
		return append(calls, next)
	}
	c.index, c.id = cmp.Or(c.index, p.index), cmp.Or(c.id, p.id)
	if p.name != "" && c.closed() && p.name == c.name && p.id == "" {
		c.again = true
	}
	if c.name == "" || c.args.Len() == 0 {
		if name, ok := join(c.name, p.name, tools); ok {
			c.name = name
		}
	}
	c.more(p.args)
	return calls
}

// find returns the call that a part names by its id, otherwise the last call at its index, otherwise nil.
func find(calls []*call, p *piecemeal) (last *call) {
	for _, c := range slices.Backward(calls) {
		there := p.index == "" || c.index == "" || p.index == c.index
		if p.id != "" && p.id == c.id && (there || p.name == "") {
			return c
		}
		if last == nil && there {
			last = c
		}
	}
	return last
}

// endsBefore reports whether a part begins another call.
func (c *call) endsBefore(p *piecemeal, tools []string) bool {
	switch {
	case p.id != "" && p.id == c.id:
		return false
	case p.id != "" && c.id != "":
		// Incomplete arguments go on, whatever the id.
		return p.name != "" || c.closed()
	case p.name == "":
		return c.again && !blank(p.args)
	case c.name == "":
		return c.closed()
	case c.closed():
		// A service that repeats names may also do so in a last part without arguments.
		return p.name != c.name || p.id != "" || !blank(p.args)
	case c.args.Len() > 0:
		return p.name != c.name
	}
	_, ok := join(c.name, p.name, tools)
	return !ok
}

// join returns the name so far, combined with a further part of it. The part may be the next piece, the same name again, or the
// whole name. It reports false if the part is a different name.
func join(name, part string, tools []string) (string, bool) {
	is := func(s string) bool { return slices.Contains(tools, s) }
	begins := func(s string) bool {
		return slices.ContainsFunc(tools, func(tool string) bool { return strings.HasPrefix(tool, s) })
	}
	switch {
	case name == "" || part == "" || part == name && is(name):
		return cmp.Or(name, part), true
	case begins(name+part) && !(is(name) && begins(part)):
		return name + part, true
	case part == name:
		return name, true
	case is(name):
		return "", false
	case strings.HasPrefix(part, name) && begins(part):
		return part, true
	case is(part):
		return "", false
	}
	return name + part, true // the model made the name up
}

// more adds to the arguments. Text after complete arguments is a repetition of them, or replaces an empty object that stood in
// for them.
func (c *call) more(args string) {
	if c.closed() && !blank(args) {
		switch strings.TrimSpace(c.args.String()) {
		case strings.TrimSpace(args):
			return
		case "{}":
			id, name, index := c.id, c.name, c.index
			*c = call{index: index, id: id, name: name}
		}
	}
	c.write(args)
}

// write appends to the arguments.
func (c *call) write(args string) {
	c.args.WriteString(args)
	for i := range len(args) {
		switch b := args[i]; {
		case c.escaped:
			c.escaped = false
		case c.quoted:
			c.escaped = b == '\\'
			c.quoted = b != '"'
		case b == ' ' || b == '\n' || b == '\t' || b == '\r':
		case !c.begun:
			c.other = c.other || b != '{'
			if !c.other {
				c.begun, c.depth = true, 1
			}
		case b == '"':
			c.quoted = true
		case b == '{' || b == '[':
			c.depth++
		case b == '}' || b == ']':
			c.depth--
		}
	}
}

// closed reports whether the arguments are a complete object.
func (c *call) closed() bool { return c.begun && c.depth <= 0 }

// blank reports whether s contains only white space.
func blank(s string) bool { return strings.TrimSpace(s) == "" }
