package simprop

import (
	"context"
	"fmt"
	"reflect"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/engine"
)

// A PortGen generates operations at one port of a flow, for [Traffic]. Its name is the name of the
// port in reports; generators with the same name are for the same port.
type PortGen[P any] struct {
	made   *operations[P]
	weight int
	last   bool // at most once, after everything else that a client does
}

// portGen returns a generator of operations. The generators of keys and values may be nil.
func portGen[P any](o *operations[P], keys, values gopter.Gen) PortGen[P] {
	o.keys, o.values = keys, values
	o.draw = func(params *gopter.GenParameters) (op operation[P], ok bool) {
		op.of = o
		if keys != nil {
			if op.key, ok = argumentOf(keys(params)); !ok {
				return op, false
			}
		}
		if values != nil {
			if op.value, ok = argumentOf(values(params)); !ok {
				return op, false
			}
		}
		return op, true
	}
	return PortGen[P]{made: o, weight: 1}
}

// Weight returns a generator that is drawn n times as often as one of weight 1, which is the
// default. It panics if n is less than 1.
func (g PortGen[P]) Weight(n int) PortGen[P] {
	if n < 1 {
		engine.Misuse("simprop.PortGen", "%s has the weight %d, which has to be at least 1", g.made.name, n)
	}
	g.weight = n
	return g
}

// A Sender is a port to which values are sent, with or without order.
type Sender[T any] interface {
	Send(ctx context.Context, x T) error
	Close()
}

// A Closer is a port that a client can close, such as any input port.
type Closer interface{ Close() }

// A KeyedSender is a port to which values with a key are sent.
type KeyedSender[K comparable, V any] interface {
	Send(ctx context.Context, k K, v V) error
	Close()
}

// Values sends values to a port. A *dataflow.InputPort has one sender, so one client sends all its
// values in each case. To a *dataflow.SharedInputPort each client may send. Values panics if the
// generator gives values of another type.
func Values[P any, In Sender[T], T any](name string, port func(P) In, values gopter.Gen) PortGen[P] {
	engine.Given("simprop.Values", port)
	gives[T]("simprop.Values", name, values)
	o := &operations[P]{
		name: name,
		do: func(c *sim.Ctx, p P, _, x any) error {
			return expected(port(p).Send(c, as[T](x)), dataflow.ErrClosed)
		},
		arg:  func(_, x any) any { return as[T](x) },
		text: valueText,
	}
	if _, one := any(*new(In)).(*dataflow.InputPort[T]); one {
		o.owner = func(any) any { return owned{name, nil} }
	}
	return portGen(o, nil, values)
}

// KeyedValues sends values with keys to a port. A *dataflow.KeyedInputPort has one sender for each
// key, so one client sends all values of a key in each case. To a *dataflow.SharedKeyedInputPort
// each client may send. KeyedValues panics if a generator gives values of another type.
func KeyedValues[P any, In KeyedSender[K, V], K comparable, V any](name string, port func(P) In, keys, values gopter.Gen) PortGen[P] {
	engine.Given("simprop.KeyedValues", port)
	gives[K]("simprop.KeyedValues", name, keys)
	gives[V]("simprop.KeyedValues", name, values)
	o := &operations[P]{
		name: name,
		do: func(c *sim.Ctx, p P, k, v any) error {
			return expected(port(p).Send(c, as[K](k), as[V](v)), dataflow.ErrClosed)
		},
		arg:  entryOf[K, V],
		text: entryText,
	}
	if _, one := any(*new(In)).(*dataflow.KeyedInputPort[K, V]); one {
		o.owner = func(k any) any { return owned{name, k} }
	}
	return portGen(o, keys, values)
}

// Entries puts entries into a keyed singleton. If several clients put the same key, one of them
// succeeds. Entries panics if a generator gives values of another type.
func Entries[P any, K comparable, V any](name string, port func(P) *dataflow.EntryInputPort[K, V], keys, values gopter.Gen) PortGen[P] {
	engine.Given("simprop.Entries", port)
	gives[K]("simprop.Entries", name, keys)
	gives[V]("simprop.Entries", name, values)
	return portGen(&operations[P]{
		name: name,
		do: func(c *sim.Ctx, p P, k, v any) error {
			return expected(port(p).Put(c, as[K](k), as[V](v)), dataflow.ErrClosed, dataflow.ErrDuplicateKey)
		},
		arg:  entryOf[K, V],
		text: entryText,
	}, keys, values)
}

// Senders sends values to a port that has a handle for each sender. One client sends all values of
// a sender in each case. Senders panics if a generator gives values of another type.
func Senders[P any, S comparable, T any](name string, port func(P) *dataflow.SenderInputPort[S, T], ids, values gopter.Gen) PortGen[P] {
	engine.Given("simprop.Senders", port)
	gives[S]("simprop.Senders", name, ids)
	gives[T]("simprop.Senders", name, values)
	return portGen(&operations[P]{
		name: name,
		do: func(c *sim.Ctx, p P, id, x any) error {
			return expected(port(p).Sender(as[S](id)).Send(c, as[T](x)), dataflow.ErrClosed)
		},
		arg:   entryOf[S, T],
		owner: func(id any) any { return owned{name, id} },
		text:  entryText,
	}, ids, values)
}

// Close closes a port, in half of the cases, as the last operation of a client. What other clients
// send there later is refused, which is not a failure.
func Close[P any, In Closer](name string, port func(P) In) PortGen[P] {
	engine.Given("simprop.Close", port)
	g := portGen(&operations[P]{
		name: name,
		do: func(_ *sim.Ctx, p P, _, _ any) error {
			port(p).Close()
			return nil
		},
		text: func(any, any) string { return "closed" },
	}, nil, nil)
	g.last = true
	return g
}

// Op calls do with an argument. Use it for whatever the other generators do not offer, such as
// waiting for an answer. An error fails the schedule. Op panics if the generator gives values of
// another type.
func Op[P, A any](name string, args gopter.Gen, do func(c *sim.Ctx, p P, arg A) error) PortGen[P] {
	engine.Given("simprop.Op", do)
	gives[A]("simprop.Op", name, args)
	return portGen(&operations[P]{
		name: name,
		do:   func(c *sim.Ctx, p P, _, x any) error { return do(c, p, as[A](x)) },
		arg:  func(_, x any) any { return as[A](x) },
		text: valueText,
	}, nil, args)
}

// owned identifies what only one client may use: a port, or a key of it.
type owned struct {
	name string
	key  any
}

func valueText(_, x any) string { return fmt.Sprintf("%v", x) }
func entryText(k, v any) string { return fmt.Sprintf("%v:%v", k, v) }
func entryOf[K comparable, V any](k, v any) any {
	return dataflow.Entry[K, V]{Key: as[K](k), Value: as[V](v)}
}

// as converts a value of a generator to its type. For the zero value of an interface or a pointer
// a generator gives nil.
func as[T any](x any) T {
	t, _ := x.(T)
	return t
}

// gives panics unless a generator gives values of type T.
func gives[T any](function, name string, g gopter.Gen) {
	engine.Given(function, g)
	if gives, takes := g(gopter.MinGenParameters()).ResultType, reflect.TypeFor[T](); gives == nil || !gives.AssignableTo(takes) {
		engine.Misuse(function, "the generator of %s gives %v, and the port takes %v", name, gives, takes)
	}
}
