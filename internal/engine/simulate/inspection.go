package simulate

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
)

// A inspection is a function that looks at the ports of a graph between two moves.
type inspection struct {
	seen func(engine.Object)
	err  error
}

// Look calls f, which looks at ports between two moves, and calls seen with the objects that f reads. f sees the present state
// and is not a move. If f does more than look, such as taking an element, Look returns an error.
func (d *Simulation) Look(f func(), seen func(engine.Object)) error {
	l := &inspection{seen: seen}
	before := d.inspecting
	d.inspecting = l
	defer func() { d.inspecting = before }()
	f()
	return l.err
}

// turn lets a caller that looks continue at once.
func (l *inspection) turn(t engine.Turn) error {
	switch t.Action {
	case "look at", "count", "ask":
		if t.Ready != nil && !t.Ready() {
			return ErrQuiet
		}
		return nil
	}
	what := t.Action
	if t.Op != nil {
		what += " " + t.Op.String()
	}
	return l.fail(what)
}

func (l *inspection) touch(o engine.Object, a engine.Access) {
	if a != engine.Reads {
		return // it was refused its turn
	}
	l.seen(o)
}

func (l *inspection) fail(what string) error {
	err := fmt.Errorf("dataflow: a property looks at ports and changes nothing, and this one wants to %s", what)
	if l.err == nil {
		l.err = err
	}
	return err
}

// Used implements [engine.Turns].
func (d *Simulation) Used(u engine.Use) {
	if d.witness != nil && d.running != nil && d.inspecting == nil && !d.inline {
		d.witness.Used(d.running.number, u)
	}
}
