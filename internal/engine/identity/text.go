package identity

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A history and a user's file contain the text of a shape: a line with the name of the location; in a history, a line for each
// program; a line for each operator, followed by a line for each of its properties.

// String returns the text of a shape.
func (s *Shape) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "location %s\n", s.Location)
	for _, d := range s.Programs {
		fmt.Fprintf(&b, "program %s\n", d)
	}
	for i := range s.Operators {
		s.Operators[i].write(&b)
	}
	return b.String()
}

// write appends the lines of an operator.
func (o *Operator) write(b *strings.Builder) {
	fmt.Fprintf(b, "\t%s\n", o.Identity)
	if o.Number > 0 {
		fmt.Fprintf(b, "\t\tnumber %d\n", o.Number)
	}
	for _, part := range []struct {
		word string
		all  []string
	}{{"takes", o.Takes}, {"keeps", o.Keeps}, {"type", o.Types}, {"was", o.Former}} {
		for _, x := range part.all {
			fmt.Fprintf(b, "\t\t%s %s\n", part.word, x)
		}
	}
	if o.Affine {
		b.WriteString("\t\taffine\n")
	}
	if o.Gone {
		b.WriteString("\t\tgone\n")
	}
	if o.Discards {
		b.WriteString("\t\tdiscards\n")
	}
}

// Parse is the inverse of [Shape.String], for any number of consecutive shapes.
func Parse(text string) (all []*Shape, err error) {
	var s *Shape
	var o *Operator
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		rest, detail := strings.CutPrefix(line, "\t\t")
		name, operator := strings.CutPrefix(line, "\t")
		location, begins := strings.CutPrefix(line, "location ")
		program, made := strings.CutPrefix(line, "program ")
		word, value, _ := strings.Cut(rest, " ")
		switch {
		case begins:
			s = &Shape{Location: location}
			all, o = append(all, s), nil
		case made && s != nil:
			s.Programs = append(s.Programs, program)
		case detail && o != nil:
			if err := o.parse(word, value); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		case operator && !detail && s != nil:
			s.Operators = append(s.Operators, Operator{Identity: name, Index: -1})
			o = &s.Operators[len(s.Operators)-1]
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			return nil, fmt.Errorf("line %d: %q is no part of a shape", n, line)
		}
	}
	return all, nil
}

// parse reads one property of an operator.
func (o *Operator) parse(word, value string) error {
	switch word {
	case "number":
		n, err := strconv.ParseInt(value, 10, 32)
		o.Number = int32(n)
		return err
	case "takes":
		o.Takes = append(o.Takes, value)
	case "keeps":
		o.Keeps = append(o.Keeps, value)
	case "type":
		o.Types = append(o.Types, value)
	case "was":
		o.Former = append(o.Former, value)
	case "affine":
		o.Affine = true
	case "gone":
		o.Gone = true
	case "discards":
		o.Discards = true
	default:
		return fmt.Errorf("%q is nothing that is said of an operator", word)
	}
	return nil
}

// fieldsOf parses an element of [Operator].Types into the name of the struct and the types of its fields. A struct type without a
// name is nothing but its fields, so these are listed with the field whose type it is: "At struct { X int }" is At of type struct
// and At.X of type int.
func fieldsOf(text string) (name string, fields map[string]string) {
	open := -1
	outside(text, func(i int) {
		if text[i] == '{' {
			open = i
		}
	})
	fields = make(map[string]string)
	if open < 0 {
		return text, fields
	}
	addFields(fields, "", strings.TrimSuffix(text[open+1:], "}"))
	return strings.TrimSuffix(text[:open], " "), fields
}

// addFields adds the fields of a struct, with prefix before their names.
func addFields(fields map[string]string, prefix, text string) {
	from := 0
	add := func(to int) {
		if field, typ, _ := strings.Cut(strings.TrimSpace(text[from:to]), " "); field != "" {
			fields[prefix+field] = addUnnamed(fields, prefix+field, typ)
		}
		from = to + 1
	}
	outside(text, func(i int) {
		if text[i] == ';' {
			add(i)
		}
	})
	add(len(text))
}

// addUnnamed adds the fields of the structs without a name that occur in the type of a field, and returns the type without them.
// Those of a second struct, as in a map from one to another, have its number in their names.
func addUnnamed(fields map[string]string, field, typ string) string {
	const opens = "struct {"
	var without strings.Builder
	for n := 1; ; n++ {
		before, rest, found := strings.Cut(typ, opens)
		without.WriteString(before)
		if !found {
			return without.String()
		}
		without.WriteString("struct")
		end := len(rest)
		outside(rest, func(i int) {
			if rest[i] == '}' {
				end = min(end, i)
			}
		})
		prefix := field + "."
		if n > 1 {
			prefix = fmt.Sprintf("%s.%d.", field, n)
		}
		addFields(fields, prefix, rest[:end])
		typ = rest[min(end+1, len(rest)):]
	}
}

// outside calls do for each byte of a text that is outside of brackets and of quotes, such as those of the tag of a field. It
// calls do for the brackets that open there, and for those that close what the text has not opened.
func outside(text string, do func(i int)) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("{[(", c) >= 0:
			if depth == 0 {
				do(i)
			}
			depth++
		case strings.IndexByte("}])", c) >= 0:
			if depth > 0 {
				depth--
			} else {
				do(i)
			}
		case depth == 0:
			do(i)
		}
	}
}

// A changedStruct is a struct in [Operator].Types whose fields differ between two programs.
type changedStruct struct {
	name        string
	before, now map[string]string // its fields
}

// changedStructs returns the structs of before that now has with other fields, ordered by name. Structs of two packages or two
// functions may have the same name. An unchanged one says nothing about another. If several of one name have changed, nothing says
// which is which, because the types are sorted by their fields. So those that are most alike are compared with each other.
func changedStructs(before, now []string) (all []changedStruct) {
	was, is := byName(before, now), byName(now, before)
	for name, olds := range ordered(was) {
		news := is[name]
		for len(olds) > 0 && len(news) > 0 {
			i, j := mostAlike(olds, news)
			all = append(all, changedStruct{name, olds[i], news[j]})
			olds, news = slices.Delete(olds, i, i+1), slices.Delete(news, j, j+1)
		}
	}
	return all
}

// mostAlike returns the indices of the two structs, one of each list, with the fewest fields that only one of them has. A field of
// another type is a field of each.
func mostAlike(olds, news []map[string]string) (at, to int) {
	fewest := -1
	for i, old := range olds {
		for j, current := range news {
			differences := len(old) + len(current)
			for f, typ := range old {
				if now, ok := current[f]; ok && now == typ {
					differences -= 2
				}
			}
			if fewest < 0 || differences < fewest {
				fewest, at, to = differences, i, j
			}
		}
	}
	return at, to
}

// byName returns the fields of structs in [Operator].Types by name, leaving out structs that are unchanged among others.
func byName(types, others []string) map[string][]map[string]string {
	all := make(map[string][]map[string]string)
	for _, t := range types {
		if !slices.Contains(others, t) {
			name, fields := fieldsOf(t)
			all[name] = append(all[name], fields)
		}
	}
	return all
}

// ordered iterates over a map in the order of its keys.
func ordered[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
