package conversation

import (
	"cmp"
	"slices"
	"strconv"
)

// The APIs of models accept names of 1 to 64 letters, digits, _ and - only, and refuse a whole request because of any other name
// in it. The names of tools are less restricted (doc/protocol.md §3.3), so a model is shown substitutes where necessary. See
// doc/protocol.md §3.9.

// maxName is the maximum length of a name that a model is shown.
const maxName = 64

// A names maps between the names of tools and those shown to a model, in one request.
type names struct {
	shown []string          // for each tool
	own   map[string]string // the tool's own name, by the name that the model is shown
	next  map[string]int    // the number to try next, by the prefix before it
}

// nameTools gives each tool a name that a model can be shown: its own name if it is valid and free. The names are distinct, and
// none is that of a built-in tool. A name that the history uses for a tool stays that tool's, even if the list of tools has
// changed.
func nameTools(tools []Tool, history []Message) *names {
	n := &names{shown: make([]string, len(tools)), own: map[string]string{EventTool: EventTool}, next: map[string]int{}}
	for _, t := range builtinTools() {
		n.own[t.Name] = t.Name
	}
	at := make(map[string]int, len(tools))
	for i := range tools {
		at[tools[i].Name] = i
	}
	give := func(i int, name string) {
		if _, taken := n.own[name]; !taken && n.shown[i] == "" && showable(name) {
			n.shown[i], n.own[name] = name, tools[i].Name
		}
	}
	for i := range history {
		for _, c := range history[i].Calls {
			if tool, offered := at[c.Name]; offered && c.Alias != "" {
				give(tool, c.Alias)
			}
		}
	}
	for i := range tools {
		give(i, tools[i].Name)
	}
	for i := range tools {
		if n.shown[i] == "" {
			give(i, n.free(substitute(tools[i].Name)))
		}
	}
	return n
}

// free returns an unused name: name itself, or its beginning followed by the first number that makes it unique.
func (n *names) free(name string) string {
	taken := func(name string) bool { _, is := n.own[name]; return is }
	if !taken(name) {
		return name
	}
	for number := 2; ; number++ {
		suffix := "_" + strconv.Itoa(number)
		before := name[:min(len(name), maxName-len(suffix))]
		if from := n.next[before]; from > number { // the smaller numbers are taken
			number = from - 1
			continue
		}
		n.next[before] = number + 1
		if numbered := before + suffix; !taken(numbered) {
			return numbered
		}
	}
}

// show returns the tools under the names that the model is shown.
func (n *names) show(tools []Tool) []Tool {
	shown := slices.Clone(tools)
	for i := range shown {
		shown[i].Name = n.shown[i]
	}
	return shown
}

// resolve returns a reply of the model whose calls have the tools' own names. A name that the model was not shown stays
// unchanged: it may be a tool's own name.
func (n *names) resolve(r *Reply) *Reply {
	resolved := *r
	resolved.Calls = slices.Clone(r.Calls)
	for i := range resolved.Calls {
		c := &resolved.Calls[i]
		c.Alias = ""
		if own, is := n.own[c.Name]; is && own != c.Name {
			c.Name, c.Alias = own, c.Name
		}
	}
	return &resolved
}

// resolveDelta is resolve for a part of a reply.
func (n *names) resolveDelta(d Delta) Delta {
	if d.Call != nil {
		c := *d.Call
		if own, is := n.own[c.Name]; is {
			c.Name = own
		}
		d.Call = &c
	}
	return d
}

// asShown returns a message of the history with the names that the model used. A name that the model made up and that its API
// would refuse is replaced.
func asShown(m Message) Message {
	m.Calls = slices.Clone(m.Calls)
	for i := range m.Calls {
		c := &m.Calls[i]
		c.Name, c.Alias = substitute(c.shown()), ""
	}
	return m
}

// shown returns the name by which the model knows the tool of a call.
func (c *Call) shown() string { return cmp.Or(c.Alias, c.Name) }

// showable reports whether a model can be shown a name.
func showable(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for i := range len(name) {
		if !inName(rune(name[i])) {
			return false
		}
	}
	return true
}

// inName reports whether the APIs of models accept a character in a name.
func inName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// substitute returns the name if a model can be shown it. Otherwise it replaces each invalid character by _ and cuts the name to
// the maximum length.
func substitute(name string) string {
	if showable(name) {
		return name
	}
	var b []byte
	for _, r := range name {
		if len(b) == maxName {
			break
		}
		if !inName(r) {
			r = '_'
		}
		b = append(b, byte(r))
	}
	return cmp.Or(string(b), "_")
}
