package simulate

import "github.com/millrace/millrace/internal/engine"

// repeats controls records of retried inputs that come more than once in a simulation. A record is repeated only where that can
// be observed.
type repeats struct {
	most, made int
	observable map[*engine.Op]bool // where repeats can be observed, and what comes before such a place
}

// Repeat lets records of retried inputs come again, n times in all. By default none does.
func (d *Simulation) Repeat(n int) { d.repeats.most = n }

// Repeated returns how many times a record came again.
func (d *Simulation) Repeated() int { return d.repeats.made }

// find finds where repeats can be observed, once the graph is complete.
func (r *repeats) find(g *engine.Graph) {
	r.observable = make(map[*engine.Op]bool)
	for all := g.RepeatsSeen; len(all) > 0; {
		op := all[0]
		all = all[1:]
		if !r.observable[op] {
			r.observable[op] = true
			all = append(all, op.Inputs()...)
		}
	}
}

// takeAgain chooses whether a record that is being taken comes again.
func (d *Simulation) takeAgain(in *engine.InputBase) bool {
	r := &d.repeats
	if !in.Retried || r.made >= r.most || !r.observable[in.Op] || d.choose.Choose(2) == 0 {
		return false
	}
	r.made++
	d.g.Note(func() string { return "it will come again from " + in.Op.String() })
	return true
}
