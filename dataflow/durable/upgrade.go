package durable

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/millrace/millrace/internal/engine/identity"
)

// A Change declares that a change of the program since its history was made is intended, and what happens to
// the stored state and records. [Options].Upgrade lists the changes. They are needed until every partition has
// a snapshot of the new program, which is made when that program first starts, and are harmless afterwards.
//
// An operator is known by the name that [dataflow.Named] gave it, by "input", "output" or "cycle" and the name
// of a port, or else by a text made of its function, its state and the operators above it. When a start is
// refused, the error has these texts and the lines that would allow it. If several locations have operators of
// the same name, the name may be prefixed with the name of the location and a slash.
type Change struct{ apply func(*identity.Lines) }

// Was says that an operator that is known by the name now was known by the name before.
func Was(now, before string) Change {
	return Change{func(l *identity.Lines) { l.Was[now] = before }}
}

// Drop says that the operator of this name is gone, and that its state is to be forgotten.
func Drop(name string) Change {
	return Change{func(l *identity.Lines) { l.Drop[name] = true }}
}

// DropRecords says that the input of this name is gone, and that records that wait for it, or still arrive for
// it, are to be forgotten: a Put of such a record is refused.
func DropRecords(name string) Change {
	return Change{func(l *identity.Lines) { l.DropRecords[name] = true }}
}

// DropField says that a field of a struct that the operator of this name keeps or takes is gone, and that its
// content is to be forgotten. A field "B" of a struct type without a name, which is the type of field "A", is
// "A.B".
func DropField(name, field string) Change {
	return Change{func(l *identity.Lines) { l.DropFields[[2]string{name, field}] = true }}
}

// Convert says how a value of type Old that the operator of this name kept becomes a New. If the fields of a
// type have changed, Old is a copy of the earlier type under another name. The function is called for values
// and for keys of this type; its result must depend on its argument alone. Waiting records cannot be converted:
// the program that made the history has to take them first.
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

// linesOf collects a list of changes.
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

// changedError returns the error of a program that cannot go on with a history.
func changedError(changes []identity.Change) error {
	var refused []string
	for _, x := range changes {
		if x.Requirement != identity.Allowed {
			refused = append(refused, x.String())
		}
	}
	return fmt.Errorf("%w: %s; add these lines to Options.Upgrade if the changes are meant, or start the program that made it", ErrChanged, strings.Join(refused, "; "))
}

// A converter is a codec that decodes stored values of an earlier type.
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
