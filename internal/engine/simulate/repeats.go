package simulate

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// repeats are records of retried inputs that come more than once in a simulation. One does
// only where somebody can tell.
type repeats struct {
	most, made int
	told       []*engine.Component // where somebody can tell, or what is sent from there to such a place
}

// Repeat lets records of retried inputs come again, n times in all. By default none does.
func (d *Simulation) Repeat(n int) { d.repeats.most = n }

// Repeated returns how many times a record came again.
func (d *Simulation) Repeated() int { return d.repeats.made }

// find finds where somebody can tell, when it is known what hangs together.
func (r *repeats) find(g *engine.Graph) {
	add := func(p *engine.Component) {
		if p = p.Find(); !slices.Contains(r.told, p) {
			r.told = append(r.told, p)
		}
	}
	for _, p := range g.RepeatsSeen {
		add(p)
	}
	for i := 0; i < len(r.told); i++ {
		for _, l := range g.Edges.All {
			if l.Dst.Find() == r.told[i] {
				add(l.Src)
			}
		}
	}
}

// takeAgain asks whether a record of p, which is taken, comes again.
func (d *Simulation) takeAgain(in *engine.InputBase, p *engine.Component) bool {
	r := &d.repeats
	if !in.Retried || r.made >= r.most || !slices.Contains(r.told, p.Find()) || d.choose.Choose(2) == 0 {
		return false
	}
	r.made++
	d.g.Note(func() string { return "it will come again from " + in.Op.String() })
	return true
}
