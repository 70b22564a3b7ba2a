package simprop

import (
	"reflect"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/engine"
)

// Limits bounds the size of the cases of a generator. The number of schedules of a case grows
// exponentially with its operations.
type Limits struct {
	Clients    int // at most; 0 means 3
	Operations int // of all clients together, at most; 0 means 8

	// Faults is the largest number of faults of each kind in a case; cases without faults are
	// generated too. For faults to happen, the specification must have those that [Case.Faults]
	// returns; the specification of a [Model] always does. A failed case shrinks to fewer faults. In a
	// Model, a client ends with the first command whose outcome is hidden from it, and Pre and Post
	// must allow that this command was not given.
	Faults sim.Faults
}

// or returns the limits with defaults for the zero fields.
func (l Limits) or() Limits {
	if l.Clients == 0 {
		l.Clients = 3
	}
	if l.Operations == 0 {
		l.Operations = 8
	}
	if l.Clients < 0 || l.Operations < 0 {
		engine.Misuse("simprop.Limits", "%d clients and %d operations are no limits", l.Clients, l.Operations)
	}
	for _, k := range faultKinds(&l.Faults) {
		if *k.most < 0 {
			engine.Misuse("simprop.Limits", "there cannot be %d faults: %s", *k.most, k.name)
		}
	}
	return l
}

// Traffic generates a [Case] of operations at ports, with the default [Limits]. Small cases come
// first. A failed case shrinks as a whole: clients and operations are left out, keys become the same,
// values shrink with the rules of their generators, and the operations of several clients become those
// of one.
func Traffic[P any](ports ...PortGen[P]) gopter.Gen { return TrafficWithin(Limits{}, ports...) }

// TrafficWithin is [Traffic] with other limits.
func TrafficWithin[P any](limits Limits, ports ...PortGen[P]) gopter.Gen {
	limits = limits.or()
	total := 0
	for _, g := range ports {
		if g.made == nil {
			engine.Misuse("simprop.Traffic", "a PortGen comes from Values, KeyedValues, Entries, Senders, Close or Op")
		}
		if !g.last {
			total += g.weight
		}
	}
	if total == 0 {
		engine.Misuse("simprop.Traffic", "nothing is generated: give it a Values, KeyedValues, Entries, Senders or Op")
	}
	return caseGen(func(params *gopter.GenParameters) Case[P] {
		// The size in gopter grows from 0 to its maximum, 100, from case to case.
		n := params.Rng.Intn(2 + (limits.Operations-1)*min(params.MaxSize, 100)/100)
		d := dealer[P]{params: params, clients: make([][]operation[P], 1+params.Rng.Intn(limits.Clients)), owners: make(map[any]int)}
		for range n {
			at := params.Rng.Intn(total)
			for _, g := range ports {
				if g.last {
					continue
				}
				if at -= g.weight; at < 0 {
					d.deal(g)
					break
				}
			}
		}
		for _, g := range ports {
			if g.last && params.NextBool() {
				d.deal(g)
			}
		}
		return Case[P]{d.clients, drawFaults(params, limits.Faults)}.withoutIdle()
	})
}

// caseGen returns a generator of cases.
func caseGen[P any](draw func(*gopter.GenParameters) Case[P]) gopter.Gen {
	return func(params *gopter.GenParameters) *gopter.GenResult {
		return &gopter.GenResult{
			Result:     draw(params),
			ResultType: reflect.TypeFor[Case[P]](),
			Shrinker:   func(v any) gopter.Shrink { return v.(Case[P]).shrink() },
		}
	}
}

// A dealer distributes operations among clients.
type dealer[P any] struct {
	params  *gopter.GenParameters
	clients [][]operation[P]
	owners  map[any]int
}

// deal draws an operation, unless its generator gives nothing, and assigns it to a client.
func (d *dealer[P]) deal(g PortGen[P]) {
	op, ok := g.made.draw(d.params)
	if !ok {
		return
	}
	client := d.params.Rng.Intn(len(d.clients))
	if what := op.of.owned(op.key.value); what != nil {
		if by, known := d.owners[what]; known {
			client = by
		}
		d.owners[what] = client
	}
	d.clients[client] = append(d.clients[client], op)
}
