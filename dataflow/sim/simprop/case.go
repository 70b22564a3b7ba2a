package simprop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow/sim"
)

// A Case is what the clients of a flow with the ports P do: a list of operations for each client. It
// comes from a generator, such as [Traffic], and does not change.
type Case[P any] struct {
	clients [][]operation[P]
	faults  sim.Faults
}

// An operation is one thing that a client does.
type operation[P any] struct {
	of    *operations[P]
	key   argument // its value is nil if the operation has no key
	value argument
}

// An operations is what all operations of one generator have in common.
type operations[P any] struct {
	name string
	// do executes an operation.
	do func(c *sim.Ctx, p P, key, value any) error
	// arg returns the argument of an operation, in the type of its port.
	arg func(key, value any) any
	// owner identifies what only one client may use, or returns nil.
	owner func(key any) any
	text  func(key, value any) string

	keys, values gopter.Gen                                             // nil if there are none
	draw         func(*gopter.GenParameters) (op operation[P], ok bool) // nil if arguments depend on earlier operations
	step         any                                                    // a *step[P, M], for a command
}

// An argument is a value with its generator's rules for smaller values.
type argument struct {
	value    any
	shrinker gopter.Shrinker
	sieve    func(any) bool
}

// argumentOf returns the value of a generator's result, and whether there is one.
func argumentOf(r *gopter.GenResult) (argument, bool) {
	v, ok := r.RetrieveAsValue()
	if !ok {
		return argument{}, false
	}
	return argument{v.Interface(), r.Shrinker, r.Sieve}, true
}

// Faults returns the faults that may happen in the case, for use in the specification. There are
// none unless the generator has [Limits] for them.
func (c Case[P]) Faults() sim.Faults { return c.faults }

// Clients returns a client for each list of operations. A client ends with the first operation that
// fails. These errors are not failures: the port was closed, or the key of an entry was put before,
// since another client may do that; a fault hides from the client what became of what it sent, after
// which it continues; a location has stopped for ever, which ends the client.
func (c Case[P]) Clients() []sim.Client[P] {
	all := make([]sim.Client[P], len(c.clients))
	for i, ops := range c.clients {
		all[i] = sim.Client[P]{Name: clientName(i), Do: func(ctx *sim.Ctx, p P) error {
			for j, op := range ops {
				err := named(ctx, i, j, func() error { return op.of.do(ctx, p, op.key.value, op.value.value) })
				switch {
				case err == nil, errors.Is(err, sim.ErrUnknown):
				case errors.Is(err, sim.ErrHalted):
					return nil
				default:
					return fmt.Errorf("%v: %w", op, err)
				}
			}
			return nil
		}}
	}
	return all
}

// ID returns an identifier for the operation of an [Op] or a [Command] that is being executed, such
// as "2.1" for the first operation of the second client. No other operation of the case has the same
// identifier. It is the same in each schedule, unlike a number that several clients count up. In
// other clients it is empty.
func ID(c *sim.Ctx) string {
	id, _ := c.Value(idKey{}).(string)
	return id
}

type idKey struct{}

// named calls f while the context contains the ID of an operation.
func named(c *sim.Ctx, client, at int, f func() error) error {
	before := c.Context
	c.Context = context.WithValue(before, idKey{}, fmt.Sprintf("%d.%d", client+1, at+1))
	defer func() { c.Context = before }()
	return f()
}

func clientName(i int) string { return fmt.Sprintf("client %d", i+1) }

// Len returns the number of operations of the case.
func (c Case[P]) Len() int {
	n := 0
	for _, ops := range c.clients {
		n += len(ops)
	}
	return n
}

// String formats the case with one line per client.
func (c Case[P]) String() string {
	if len(c.clients) == 0 {
		return "nobody does anything"
	}
	lines := make([]string, len(c.clients))
	for i, ops := range c.clients {
		words := make([]string, len(ops))
		for j, op := range ops {
			words[j] = op.String()
		}
		lines[i] = clientName(i) + ": " + strings.Join(words, ", ")
	}
	if faults := faultsText(c.faults); faults != "" {
		lines = append(lines, "faults: "+faults)
	}
	return strings.Join(lines, "\n")
}

func (op operation[P]) String() string {
	return strings.TrimSpace(op.of.name + " " + op.of.text(op.key.value, op.value.value))
}

// Sent returns the arguments of the operations with the given name, client by client. Those of
// [Values] and [Op] are returned as they are, those of [KeyedValues], [Entries] and [Senders] as a
// dataflow.Entry. Sent panics if T is another type, since a property that looks for the wrong type
// would see nothing.
func Sent[T, P any](c Case[P], name string) []T {
	var all []T
	for _, ops := range c.clients {
		for _, op := range ops {
			if op.of.name != name || op.of.arg == nil {
				continue
			}
			x, ok := op.of.arg(op.key.value, op.value.value).(T)
			if !ok {
				panic(fmt.Sprintf("simprop: Sent: %s takes %T, not %T", name, op.of.arg(op.key.value, op.value.value), *new(T)))
			}
			all = append(all, x)
		}
	}
	return all
}

// owned reports whether everything that only one client may use is used by only one client.
func (c Case[P]) owned() bool {
	owners := make(map[any]int)
	for i, ops := range c.clients {
		for _, op := range ops {
			what := op.of.owned(op.key.value)
			if what == nil {
				continue
			}
			if by, known := owners[what]; known && by != i {
				return false
			}
			owners[what] = i
		}
	}
	return true
}

func (o *operations[P]) owned(key any) any {
	if o.owner == nil {
		return nil
	}
	return o.owner(key)
}

// with returns the case with other operations for one client.
func (c Case[P]) with(client int, ops []operation[P]) Case[P] {
	clients := slices.Clone(c.clients)
	clients[client] = ops
	return Case[P]{clients, c.faults}.withoutIdle()
}

// withoutIdle returns the case without clients that do nothing.
func (c Case[P]) withoutIdle() Case[P] {
	return Case[P]{slices.DeleteFunc(slices.Clone(c.clients), func(ops []operation[P]) bool { return len(ops) == 0 }), c.faults}
}

// expected returns err unless it is one of the given errors, which clients of one case may cause for
// each other.
func expected(err error, all ...error) error {
	for _, e := range all {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
