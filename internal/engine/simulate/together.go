package simulate

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A joint is an input whose records reach an operator in two ways. Of several records that come in one step, such an operator
// gets all one way before it gets them the other way, which may be told apart from one record after another. It cannot if the
// records are independent. Which records are not is found out when they are taken one after another; until then records are not
// taken together.
type joint struct {
	behind map[int32]map[engine.Object]bool // by operator: what can show the order in which something came
	took   []Effect                         // the steps that took something
}

// A Selective chooser can skip answers that are not worth trying, if it tries all answers.
type Selective interface {
	// ChooseOf is [Chooser].Choose; worth reports whether an answer may make a difference.
	ChooseOf(n int, worth func(i int) bool) int
}

// joins finds the inputs for which several records in one step may be told apart from one after another.
func (d *Simulation) joins(s *engine.Location) {
	for _, in := range s.Inputs {
		if in == nil {
			continue
		}
		all := in.Base().Op.Joins()
		if len(all) == 0 {
			continue
		}
		j := &joint{behind: make(map[int32]map[engine.Object]bool)}
		for _, op := range all {
			j.behind[op.Index] = op.Behind()
		}
		d.together[in.Base().Op.Object(0)] = j
	}
}

// inGroup records that a record of a lane is sent or taken that may be taken together with others.
func (d *Simulation) inGroup(lane engine.Object) {
	if of, ok := d.known.Together[lane]; ok {
		d.footprint.touch(of.Group(), engine.Writes)
	}
}

// more takes further records of the input of a move as part of the same step, and returns how many.
func (d *Simulation) more(m *Move) (n int) {
	in, base := m.in, m.in.Base()
	if d.together[base.Op.Object(0)] == nil {
		return 0
	}
	lane := base.Op.Lane(m.ID)
	d.inGroup(lane)
	group, mingles := d.known.Together[lane]
	for {
		all := in.Heads()
		if len(all) == 0 {
			return n
		}
		i := d.chooseOf(len(all)+1, func(i int) bool {
			return i == 0 || mingles && d.known.Together.Of(base.Op.Lane(all[i-1].ID)) == group
		})
		if i == 0 {
			return n
		}
		d.g.Note(func() string { return "take " + in.RecordText(all[i-1].At) + " in the same step" })
		h := all[i-1]
		if d.takeAt(&Move{Name: Name{Takes, int32(base.Loc.Number), base.Op.Index, h.ID}, loc: base.Loc, in: in, head: h.At}) {
			n++
		}
	}
}

func (d *Simulation) chooseOf(n int, worth func(i int) bool) int {
	if s, ok := d.choose.(Selective); ok {
		return s.ChooseOf(n, worth)
	}
	return d.choose.Choose(n)
}

// mingles records whether taking this step's record together with that of an earlier step could be told apart from taking one
// after the other.
func (d *Simulation) mingles(m *Move, e *Effect) {
	j := d.together[m.In().Object(0)]
	if j == nil || len(e.Took) == 0 {
		return
	}
	for i := range j.took {
		f := &j.took[i]
		a, b := e.Took[0], f.Took[0]
		of, known := d.known.Together[a]
		if known && d.known.Together[b] == of {
			continue
		}
		if j.tells(e, f) {
			d.footprint.Missed.Mingle(a, b)
		}
	}
	j.took = append(j.took, *e)
}

// tells reports whether something behind an operator, to which e and f bring something in two ways, is reached by both.
func (j *joint) tells(e, f *Effect) bool {
	for op, behind := range j.behind {
		if ways(op, e, f) > 1 && e.conflictsIn(f, behind) {
			return true
		}
	}
	return false
}

// ways returns the number of ways in which e and f together bring something to an operator.
func ways(op int32, e, f *Effect) (n int) {
	for _, o := range e.ways {
		if o.Op == op {
			n++
		}
	}
	for _, o := range f.ways {
		if o.Op == op && !slices.Contains(e.ways, o) {
			n++
		}
	}
	return n
}
