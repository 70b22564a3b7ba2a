package durable

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/millrace/millrace/internal/engine/identity"
)

// A Change says that a change of the program since its history was made is meant, and what
// becomes of what the history has. [Options].Upgrade has them; they are needed until every
// partition has a snapshot of the new program, which it makes when it is first started, and do
// no harm afterwards.
//
// An operator is known by the name that [dataflow.Named] gave it, by "input", "output" or
// "cycle" and the name of a port, or else by a text made of its function, of what it keeps, and
// of what is above it. The error of a start that is refused has these texts, with the lines
// that would allow it. Where locations have operators of the same name, the name of the location
// and a slash may come before.
type Change struct{ apply func(*identity.Lines) }

// Was says that the operator that is known by the name now was known by the name before.
func Was(now, before string) Change {
	return Change{func(l *identity.Lines) { l.Was[now] = before }}
}

// Drop says that the operator of this name is gone, and that what it remembered is forgotten.
func Drop(name string) Change {
	return Change{func(l *identity.Lines) { l.Drop[name] = true }}
}

// DropRecords says that the input of this name is gone, and that records which wait for it, or
// still come for it, are forgotten: a Put of them is refused.
func DropRecords(name string) Change {
	return Change{func(l *identity.Lines) { l.DropRecords[name] = true }}
}

// DropField says that a field of a struct that the operator of this name keeps or takes is gone,
// and that what was in it is forgotten.
func DropField(name, field string) Change {
	return Change{func(l *identity.Lines) { l.DropFields[[2]string{name, field}] = true }}
}

// Convert says how what the operator of this name kept as an Old becomes a New. If the fields of
// a type have changed, Old is a copy of what it was, under another name. It is called for values
// and for keys of this type. Old depends on its argument alone. Records that wait cannot be
// converted: the program that made the history has to take them.
func Convert[Old, New any](name string, convert func(Old) New) Change {
	x := identity.Conversion{
		From: reflect.TypeFor[Old](), To: reflect.TypeFor[New](),
		Apply: func(decode func(p any) error, to any) error {
			var old Old
			if err := decode(&old); err != nil {
				return err
			}
			*to.(*New) = convert(old)
			return nil
		},
	}
	return Change{func(l *identity.Lines) { l.Convert[name] = append(l.Convert[name], x) }}
}

// linesOf gathers what changes say.
func linesOf(changes []Change) identity.Lines {
	l := identity.Lines{
		Was: make(map[string]string), Drop: make(map[string]bool), DropRecords: make(map[string]bool),
		DropFields: make(map[[2]string]bool), Convert: make(map[string][]identity.Conversion),
	}
	for _, x := range changes {
		if x.apply != nil {
			x.apply(&l)
		}
	}
	return l
}

// changedError says why a program cannot go on with a history.
func changedError(changes []identity.Change) error {
	var refused []string
	for _, x := range changes {
		if x.Verdict != identity.Allowed {
			refused = append(refused, x.String())
		}
	}
	return fmt.Errorf("%w: %s; add these lines to Options.Upgrade if the changes are meant, or start the program that made it", ErrChanged, strings.Join(refused, "; "))
}

// A converter is a codec that decodes what was kept as values of another type.
type converter struct {
	Codec
	by []identity.Conversion
}

func (c converter) Decode(data []byte, p any) error {
	for _, x := range c.by {
		if reflect.TypeOf(p).Elem() == x.To {
			return x.Apply(func(old any) error { return c.Codec.Decode(data, old) }, p)
		}
	}
	return c.Codec.Decode(data, p)
}
