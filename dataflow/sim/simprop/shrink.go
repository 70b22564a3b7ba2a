package simprop

import (
	"iter"
	"slices"

	"github.com/leanovate/gopter"
)

// A reduction yields cases that are smaller in some respect.
type reduction[P any] func(yield func(Case[P]) bool)

// shrink returns smaller cases, those that leave out most first. Each is smaller by at least one of
// these measures and not larger by any measure before it, so that shrinking ends: clients,
// operations, different keys, operations that are not of the first client, faults, values. What only
// one client may use still has one user.
func (c Case[P]) shrink() gopter.Shrink {
	ways := []reduction[P]{c.withoutClients, c.withoutOperations, c.withFewerKeys, c.merged, c.moved, c.withFewerFaults}
	for i, ops := range c.clients {
		for j := range ops {
			ways = append(ways, c.withSmaller(i, j))
		}
	}
	ways = append(ways, c.drawnAgain)
	var made []Case[P]
	return func() (any, bool) {
		for len(made) == 0 {
			if len(ways) == 0 {
				return nil, false
			}
			ways[0](func(d Case[P]) bool {
				if d.owned() {
					made = append(made, d)
				}
				return true
			})
			ways = ways[1:]
		}
		d := made[0]
		made = made[1:]
		return d, true
	}
}

// withoutClients leaves out a whole client.
func (c Case[P]) withoutClients(yield func(Case[P]) bool) {
	for i := range c.clients {
		if !yield(c.with(i, nil)) {
			return
		}
	}
}

// withoutOperations leaves out halves of a client's operations, then quarters, down to single
// operations.
func (c Case[P]) withoutOperations(yield func(Case[P]) bool) {
	for i, ops := range c.clients {
		for n := len(ops) / 2; n > 0; n /= 2 {
			for end := len(ops); end >= n; end -= n {
				if !yield(c.with(i, slices.Delete(slices.Clone(ops), end-n, end))) {
					return
				}
			}
		}
	}
}

// withFewerKeys gives an operation the key of an earlier operation of the same generator.
func (c Case[P]) withFewerKeys(yield func(Case[P]) bool) {
	var before []operation[P]
	for i, ops := range c.clients {
		for j, op := range ops {
			seen := slices.IndexFunc(before, func(b operation[P]) bool { return b.of == op.of && b.key.value == op.key.value })
			for k, b := range before {
				if op.key.value == nil || b.of != op.of || k == seen {
					continue
				}
				if seen >= 0 && k > seen {
					break // only earlier keys, so that two keys are not exchanged for ever
				}
				changed := slices.Clone(ops)
				changed[j].key = b.key
				if !yield(c.with(i, changed)) {
					return
				}
			}
			before = append(before, op)
		}
	}
}

// redraws is the number of smaller cases that are drawn when nothing else makes a case smaller. If
// one in twenty of them fails, all are missed once in 20,000 times.
const redraws = 200

// drawnAgain leaves out one operation and draws the arguments of the others again. It finds two large
// values that do what three did, if none of the three can be left out or made smaller.
func (c Case[P]) drawnAgain(yield func(Case[P]) bool) {
	n := c.Len()
	if n < 2 {
		return
	}
	params := gopter.DefaultGenParameters().CloneWithSeed(int64(n))
	for i := range redraws {
		out := i % n
		d := Case[P]{make([][]operation[P], len(c.clients)), c.faults}
		for client, ops := range c.clients {
			for _, op := range ops {
				if out--; out == -1 {
					continue
				}
				if op.of.draw == nil {
					return
				}
				if again, ok := op.of.draw(params); ok {
					op = again
				}
				d.clients[client] = append(d.clients[client], op)
			}
		}
		if !yield(d.withoutIdle()) {
			return
		}
	}
}

// merged appends the operations of one client to those of another.
func (c Case[P]) merged(yield func(Case[P]) bool) {
	for i := range c.clients {
		for j := range i {
			d := c.with(j, slices.Concat(c.clients[j], c.clients[i]))
			if !yield(d.with(i, nil)) {
				return
			}
		}
	}
}

// moved moves one operation to the first client, or all operations that use what only one client may
// use.
func (c Case[P]) moved(yield func(Case[P]) bool) {
	for i := 1; i < len(c.clients); i++ {
		for j, op := range c.clients[i] {
			what := op.of.owned(op.key.value)
			var moved, kept []operation[P]
			for k, other := range c.clients[i] {
				if k == j || what != nil && other.of.owned(other.key.value) == what {
					moved = append(moved, other)
				} else {
					kept = append(kept, other)
				}
			}
			d := Case[P]{slices.Clone(c.clients), c.faults}
			d.clients[0] = slices.Concat(c.clients[0], moved)
			if !yield(d.with(i, kept)) {
				return
			}
		}
	}
}

// withSmaller shrinks the value and the key of one operation with the rules of their generators.
func (c Case[P]) withSmaller(client, at int) reduction[P] {
	return func(yield func(Case[P]) bool) {
		ops := c.clients[client]
		change := func(f func(*operation[P])) bool {
			changed := slices.Clone(ops)
			f(&changed[at])
			return yield(c.with(client, changed))
		}
		for value := range ops[at].value.smaller() {
			if !change(func(op *operation[P]) { op.value = value }) {
				return
			}
		}
		for key := range ops[at].key.smaller() {
			if !change(func(op *operation[P]) { op.key = key }) {
				return
			}
		}
	}
}

// smaller iterates over smaller values that the generator could have given.
func (a argument) smaller() iter.Seq[argument] {
	return func(yield func(argument) bool) {
		if a.shrinker == nil {
			return
		}
		shrink := a.shrinker(a.value).Filter(a.sieve)
		for v, ok := shrink(); ok; v, ok = shrink() {
			if !yield(argument{v, a.shrinker, a.sieve}) {
				return
			}
		}
	}
}
