package identity

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/engine"
)

// Lines are what a user declares about changes of a program. An operator is named by its identity, or by its location, a slash
// and its identity.
type Lines struct {
	Was         map[string]string // the earlier identity, by the current one
	Drop        map[string]bool   // what the operator remembers is forgotten
	DropRecords map[string]bool   // records for the operator are forgotten
	DropFields  map[[2]string]bool
	Convert     map[string][]Conversion
}

// A Conversion converts values of one type to another.
type Conversion struct {
	From, To reflect.Type
	Apply    func(decode func(p any) error, to any) error // decodes a From and stores the converted value in what to points to
}

// A Requirement says what a change of a program requires.
type Requirement int

// Verdicts.
const (
	Allowed   Requirement = iota // nothing
	NeedsLine                    // a line that says what has changed, or that the change is intended
	Loses                        // a line that accepts the loss of state
	Refused                      // no line helps
)

// A Change is one difference between a history and a program.
type Change struct {
	Location    string
	What        string // in words
	Line        string // the line that allows it
	Requirement Requirement
}

func (c Change) String() string {
	text := c.Location + ": " + c.What
	if c.Line != "" {
		text += ": " + c.Line
	}
	return text
}

// Next returns the new shape of a history whose shape is was and whose program is that of location s, and the changes. Operators
// of the result that the program has contain their index in it.
func Next(was *Shape, s *engine.Location, lines Lines) (next *Shape, changes []Change) {
	c := comparison{lines: lines, at: s.Name, divided: s.Partitions() > 1, next: &Shape{Location: s.Name, Operators: slices.Clone(was.Operators)}}
	is := of(s, lines.Was)
	digest := is.Digest()
	if len(lines.Was) > 0 {
		digest = Of(s).Digest()
	}
	c.next.Programs = append(slices.DeleteFunc(slices.Clone(was.Programs), func(d string) bool { return d == digest }), digest)
	c.next.Programs = c.next.Programs[max(0, len(c.next.Programs)-mostPrograms):]
	c.match(is.Operators)
	return c.next, c.changes
}

// Known returns the operators of a history, with the index of those that the program of a location has, by their current or
// earlier identities. It is for a process that does not decide what becomes of the history.
func Known(was *Shape, s *engine.Location, lines Lines) *Shape {
	known, _ := Next(was, s, lines)
	known.Operators = known.Operators[:len(was.Operators)]
	is := of(s, nil).Operators
	for i := range known.Operators {
		o := &known.Operators[i]
		for j := range is {
			if o.Index < 0 && slices.Contains(o.Former, is[j].Identity) {
				o.Index, o.Gone = is[j].Index, false
			}
		}
	}
	return known
}

// Kept returns the conversions that the state and records of a history need, by the index of their operator in the program, for
// types that have changed since they were kept. next is the new shape of the history. It also returns the changes for which a
// line is missing.
func Kept(was, next *Shape, lines Lines) (convert map[int32][]Conversion, changes []Change) {
	convert = make(map[int32][]Conversion)
	for _, row := range was.Operators {
		i := slices.IndexFunc(next.Operators, func(o Operator) bool { return o.Number == row.Number })
		if i < 0 || next.Operators[i].Gone || row.Gone {
			continue
		}
		op := next.Operators[i]
		if slices.Equal(row.Takes, op.Takes) && slices.Equal(row.Keeps, op.Keeps) && slices.Equal(row.Types, op.Types) {
			continue
		}
		c := comparison{lines: lines, at: next.Location}
		convert[op.Index] = c.conversions(op.Identity)
		if c.same(&row, &op); len(convert[op.Index]) == 0 {
			delete(convert, op.Index)
		}
		for _, x := range c.changes {
			if x.Requirement == NeedsLine {
				changes = append(changes, x)
			}
		}
	}
	return convert, changes
}

// NextOf is Next for a program of which only the shape is available.
func NextOf(was, is *Shape) (changes []Change) {
	c := comparison{at: is.Location, divided: true, next: &Shape{Operators: slices.Clone(was.Operators)}}
	ops := slices.Clone(is.Operators)
	for i := range ops {
		ops[i].was = ops[i].Identity
	}
	c.match(ops)
	return c.changes
}

// A comparison matches the operators of a program with those of a history.
type comparison struct {
	lines   Lines
	at      string
	next    *Shape
	divided bool // there may be several partitions
	changes []Change
}

func (c *comparison) changed(v Requirement, line, format string, args ...any) {
	c.changes = append(c.changes, Change{c.at, fmt.Sprintf(format, args...), line, v})
}

// named reports whether a set of lines names an operator.
func (c *comparison) named(set map[string]bool, identity string) bool {
	return set[identity] || set[c.at+"/"+identity]
}

func (c *comparison) match(is []Operator) {
	rows := c.next.Operators
	last := int32(FirstNumber - 1)
	byIdentity := make(map[string]int)
	for i := range rows {
		rows[i].Index, rows[i].Pos = -1, ""
		last = max(last, rows[i].Number)
		if !rows[i].Gone {
			byIdentity[rows[i].Identity] = i
		}
	}
	found := make([]int, len(is)) // the row of each operator, or -1
	for i := range is {
		found[i] = -1
		if is[i].was != is[i].Identity {
			if at, ok := byIdentity[is[i].was]; ok {
				found[i] = at
				delete(byIdentity, is[i].was)
			}
		}
	}
	for i := range is {
		if at, ok := byIdentity[is[i].Identity]; ok && found[i] < 0 {
			found[i] = at
			delete(byIdentity, is[i].Identity)
		}
	}
	var fresh, gone []int
	for i := range is {
		if found[i] < 0 {
			fresh = append(fresh, i)
			continue
		}
		c.same(&rows[found[i]], &is[i])
	}
	for i := range rows {
		if _, ok := byIdentity[rows[i].Identity]; ok && !rows[i].Gone {
			gone = append(gone, i)
		}
	}
	c.ambiguous(is, rows, found, gone, fresh)
	for _, i := range gone {
		c.gone(&rows[i], is, fresh)
	}
	for _, i := range fresh {
		last++
		o := is[i]
		o.Number = last
		c.next.Operators = append(c.next.Operators, o)
		c.changed(Allowed, "", "%s is new, and begins with nothing", o.Identity)
	}
}

// base returns an identity without the number of a twin.
func base(identity string) string {
	if i := strings.LastIndexByte(identity, '#'); i > 0 && strings.HasSuffix(identity[:i], "}") {
		return identity[:i]
	}
	return identity
}

// ambiguous refuses groups of twins whose size has changed, because it is unknown which is which.
func (c *comparison) ambiguous(is, rows []Operator, found, gone, fresh []int) {
	both := make(map[string][2][]string) // of a group: positions that stayed, and identities gained or lost
	for i := range is {
		if found[i] >= 0 && rows[found[i]].Identity == is[i].Identity && strings.HasSuffix(base(is[i].Identity), "}") {
			b := both[base(is[i].Identity)]
			b[0] = append(b[0], is[i].Pos)
			both[base(is[i].Identity)] = b
		}
	}
	var order []string
	add := func(identity string) {
		key := base(identity)
		b, ok := both[key]
		if !ok {
			return
		}
		if b[1] == nil {
			order = append(order, key)
		}
		b[1] = append(b[1], identity)
		both[key] = b
	}
	for _, i := range gone {
		if !c.named(c.lines.Drop, rows[i].Identity) {
			add(rows[i].Identity)
		}
	}
	for _, i := range fresh {
		add(is[i].Identity)
	}
	for _, key := range order {
		c.changed(NeedsLine, fmt.Sprintf("name them with dataflow.Named, and say durable.Was(%q, …) of those that the history has", "name"),
			"there are as many operators %s as before and %d more or fewer, and nobody can tell which is which", key, len(both[key][1]))
	}
}

// gone records that the program no longer has an operator of the history.
func (c *comparison) gone(row *Operator, is []Operator, fresh []int) {
	name := row.Identity
	row.Gone, row.Discards = true, c.named(c.lines.DropRecords, name)
	switch {
	case len(row.Keeps) == 0 || c.named(c.lines.Drop, name):
		c.changed(Allowed, "", "%s is gone", name)
	default:
		line := fmt.Sprintf("durable.Drop(%q) forgets it", name)
		for _, i := range fresh {
			if slices.Equal(is[i].Keeps, row.Keeps) && slices.Equal(is[i].Takes, row.Takes) {
				line = fmt.Sprintf("durable.Was(%q, %q) says that it is this one, or %s", is[i].Identity, name, line)
				break
			}
		}
		c.changed(Loses, line, "%s is gone, and remembers something", name)
	}
	row.Takes, row.Keeps, row.Types = nil, nil, nil
}

// same compares what an operator takes and keeps with what it did before.
func (c *comparison) same(row, op *Operator) {
	name := op.Identity
	if row.Identity != name {
		row.Former = append(row.Former, row.Identity)
		c.changed(Allowed, "", "%s was %s", name, row.Identity)
	}
	if row.Affine != op.Affine && c.divided && !strings.HasPrefix(name, "output ") { // an output has what was given to it in any partition
		c.changed(Refused, "", "the keys of %s were placed by %s, and are placed by %s: what there is of them is in other partitions", name, placedBy(row), placedBy(op))
	}
	convert := c.conversions(name)
	if why := op.placed.converts(convert); why != "" && c.divided {
		c.moved(name, why)
	}
	if !fits(row.Keeps, op.Keeps, convert) || !fits(row.Takes, op.Takes, convert) {
		c.changed(NeedsLine, fmt.Sprintf("durable.Convert(%q, func(old) new)", name), "%s kept %s of %s, and keeps %s of %s",
			name, list(row.Keeps), list(row.Takes), list(op.Keeps), list(op.Takes))
	}
	for _, x := range changedStructs(row.Types, op.Types) {
		if why := op.placed.moves(x.name, x.before, x.now); why != "" && c.divided {
			c.moved(name, why)
			continue
		}
		if !slices.ContainsFunc(convert, func(to Conversion) bool { return to.To.String() == x.name }) {
			c.fields(name, x.name, x.before, x.now)
		}
	}
	row.Affine, row.placed, row.Divided = op.Affine, op.placed, op.Divided
	row.Identity, row.Takes, row.Keeps, row.Types, row.Index, row.Pos = name, op.Takes, op.Keeps, op.Types, op.Index, op.Pos
}

// moved records that the keys of an operator are encoded in another way.
func (c *comparison) moved(name, why string) {
	c.changed(Refused, "", "the keys of %s are placed by their encoding, and %s: what there is of them is in other partitions", name, why)
}

// placedBy describes what the keys of an operator are placed by.
func placedBy(o *Operator) string {
	if o.Affine {
		return "their Affinity"
	}
	return "themselves"
}

// fields compares the fields of a struct with the earlier ones.
func (c *comparison) fields(name, typ string, before, now map[string]string) {
	for f, was := range ordered(before) {
		if within(f, before, now) {
			continue
		}
		is, ok := now[f]
		_, dropped := c.lines.DropFields[[2]string{name, f}]
		_, droppedHere := c.lines.DropFields[[2]string{c.at + "/" + name, f}]
		switch {
		case !ok && !dropped && !droppedHere:
			c.changed(Loses, fmt.Sprintf("durable.DropField(%q, %q) forgets it", name, f), "%s: field %s of %s is gone", name, f, typ)
		case !ok:
			c.changed(Allowed, "", "%s: field %s of %s is gone", name, f, typ)
		case is != was:
			c.changed(NeedsLine, fmt.Sprintf("durable.Convert(%q, func(old) %s)", name, typ), "%s: field %s of %s was %s and is %s", name, f, typ, was, is)
		}
	}
	for f := range ordered(now) {
		if _, ok := before[f]; !ok {
			c.changed(Allowed, "", "%s: field %s of %s is new", name, f, typ)
		}
	}
}

// within reports whether f is in a struct without a name that is the type of a field, or a part of that type, and this field is
// gone or has another type. Then the field is reported, and not what was in it.
func within(f string, before, now map[string]string) bool {
	for i := range f {
		if outer := f[:i]; f[i] == '.' && before[outer] != now[outer] {
			return true
		}
	}
	return false
}

// conversions returns the conversions of an operator.
func (c *comparison) conversions(name string) []Conversion {
	return slices.Concat(c.lines.Convert[name], c.lines.Convert[c.at+"/"+name])
}

// fits reports whether kinds are unchanged except for converted types.
func fits(was, is []string, convert []Conversion) bool {
	before, now := strings.Join(was, " "), strings.Join(is, " ")
	if before == now {
		return true
	}
	for _, x := range convert {
		now = word(x.To.String()).ReplaceAllLiteralString(now, "\x00")
		before = word(x.From.String()).ReplaceAllLiteralString(before, "\x00")
		before = word(x.To.String()).ReplaceAllLiteralString(before, "\x00") // From is a copy of what To was
	}
	return len(convert) > 0 && before == now
}

// word matches the name of a type where it is not a part of another name.
func word(name string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(name)
	if name[0] != '[' && name[0] != '*' {
		pattern = `\b` + pattern
	}
	if !strings.HasSuffix(name, "]") && !strings.HasSuffix(name, "}") {
		pattern += `\b`
	}
	return regexp.MustCompile(pattern)
}

func list(kinds []string) string {
	if len(kinds) == 0 {
		return "nothing"
	}
	return strings.Join(kinds, ", ")
}

// Converted reports whether an operator takes or keeps other types than before, so that nothing in the old form may be waiting
// for it. Adding or dropping fields does not make another type.
func (o *Operator) Converted(before *Operator) bool {
	if !slices.Equal(o.Takes, before.Takes) || !slices.Equal(o.Keeps, before.Keeps) {
		return true
	}
	for _, x := range changedStructs(before.Types, o.Types) {
		for f, typ := range x.before {
			if now, ok := x.now[f]; ok && now != typ {
				return true
			}
		}
	}
	return false
}
