package simprop

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow/sim"
)

// A faultKind is the number of faults of one kind that may happen.
type faultKind struct {
	name string
	most *int
}

// faultKinds returns every kind of fault, with pointers to the fields of f.
func faultKinds(f *sim.Faults) []faultKind {
	return []faultKind{
		{"Lose", &f.Lose}, {"Repeat", &f.Repeat}, {"Delay", &f.Delay}, {"Isolations", &f.Isolations},
		{"Halts", &f.Halts}, {"Crashes", &f.Crashes}, {"LostAcks", &f.LostAcks},
	}
}

// drawFaults draws how many faults of each kind may happen. For each kind, the number is zero in
// half of the cases.
func drawFaults(params *gopter.GenParameters, most sim.Faults) sim.Faults {
	f := most
	for _, k := range faultKinds(&f) {
		switch {
		case *k.most == 0: // draw nothing, so that a generator without faults is not affected
		case params.NextBool():
			*k.most = 0
		default:
			*k.most = 1 + params.Rng.Intn(*k.most)
		}
	}
	return f
}

func faultsText(f sim.Faults) string {
	var words []string
	for _, k := range faultKinds(&f) {
		if *k.most > 0 {
			words = append(words, fmt.Sprintf("%s %d", k.name, *k.most))
		}
	}
	return strings.Join(words, ", ")
}

// withFewerFaults yields the case without faults, without those of one kind, with half of these,
// and with one less.
func (c Case[P]) withFewerFaults(yield func(Case[P]) bool) {
	if faultsText(c.faults) == "" {
		return
	}
	none := c
	for _, k := range faultKinds(&none.faults) {
		*k.most = 0
	}
	if !yield(none) {
		return
	}
	for i, k := range faultKinds(&c.faults) {
		for _, n := range slices.Compact([]int{0, *k.most / 2, *k.most - 1}) {
			if n < 0 || n >= *k.most {
				continue
			}
			fewer := c
			*faultKinds(&fewer.faults)[i].most = n
			if !yield(fewer) {
				return
			}
		}
	}
}

// fateUnknown reports whether err hides from a client what became of its command.
func fateUnknown(err error) bool {
	return errors.Is(err, sim.ErrUnknown) || errors.Is(err, sim.ErrHalted)
}
