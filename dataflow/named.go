package dataflow

import "github.com/millrace/millrace/internal/engine"

// Nameable is satisfied by the results of operators: collections, including those that Send
// returns, and ports. See [Named].
type Nameable interface {
	operator() *engine.Op
}

// Named returns c and names the operator that made it. A history identifies the operator by
// this name when the program changes; see package durable.
//
//	tally := dataflow.Named("tally", keyedstream.Fold(votes, …))
//
// Without a name an operator is identified by its function, by its state and by the operators
// above it. That is enough if operators are added or removed elsewhere, but does not
// distinguish two equal ones. A name stays when all of that changes. A port is identified by
// its own name unless it is given another one. A collection sent to another location is named
// at both.
//
// A name has 1 to 64 of the characters a-z, 0-9, '_', '.' and '-', and is used once at a
// location. Anything else panics while the flow is built, and so does naming an operator twice.
func Named[C Nameable](name string, c C) C {
	op := c.operator()
	if op == nil {
		engine.Unmade("dataflow.Named", "name what an operator gives")
	}
	op.Named("dataflow.Named", name)
	return c
}

func (s Stream[T, L, B, O, R]) operator() *engine.Op {
	return engine.OperatorOf(s, "dataflow.Named")
}

func (s KeyedStream[K, V, L, B, O, R]) operator() *engine.Op {
	return engine.OperatorOf(s, "dataflow.Named")
}

func (s KeyedSingleton[K, V, L, B]) operator() *engine.Op {
	return engine.OperatorOf(s, "dataflow.Named")
}

func (s Singleton[T, L, B]) operator() *engine.Op {
	return engine.OperatorOf(s, "dataflow.Named")
}

func (s Optional[T, L, B]) operator() *engine.Op {
	return engine.OperatorOf(s, "dataflow.Named")
}

func (p *InputPort[T]) operator() *engine.Op {
	return made(p.in(), "dataflow.InputPort").Base().Op
}

func (p *SharedInputPort[T]) operator() *engine.Op {
	return made(p.in(), "dataflow.SharedInputPort").Base().Op
}

func (p *KeyedInputPort[K, V]) operator() *engine.Op {
	return made(p.in(), "dataflow.KeyedInputPort").Base().Op
}

func (p *SharedKeyedInputPort[K, V]) operator() *engine.Op {
	return made(p.in(), "dataflow.SharedKeyedInputPort").Base().Op
}

func (p *EntryInputPort[K, V]) operator() *engine.Op {
	return made(p.in(), "dataflow.EntryInputPort").Base().Op
}

func (p *SenderInputPort[S, T]) operator() *engine.Op { return p.made().in.Base().Op }

func (p *OutputPort[T]) operator() *engine.Op {
	return made(p.out(), "dataflow.OutputPort").Operator()
}

func (p *EntryOutputPort[K, V]) operator() *engine.Op {
	return made(p.out(), "dataflow.EntryOutputPort").Operator()
}

func (p *SingletonOutputPort[T]) operator() *engine.Op {
	return made(p.out(), "dataflow.SingletonOutputPort").Operator()
}

func (p *OptionalOutputPort[T]) operator() *engine.Op {
	return made(p.out(), "dataflow.OptionalOutputPort").Operator()
}
