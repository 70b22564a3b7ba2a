package dataflow

import (
	"reflect"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/seal"
)

// The public types of this package are declared from those below, so that only packages of
// this module can open and make them; see package seal. The function type in each
// declaration distinguishes types with equal contents.
type (
	stream[T, L, B, O, R any]                    = seal.Type[func(T, L, B, O, R), engine.HeldNode[T]]
	keyedStream[K comparable, V, L, B, O, R any] = seal.Type[func(K, V, L, B, O, R), engine.HeldKeyedNode[K, V]]
	keyedSingleton[K comparable, V, L, B any]    = seal.Type[func(K, V, L, B), engine.HeldKeyedNode[K, V]]
	singleton[T, L, B any]                       = seal.Type[func(T, L, B), engine.HeldValueNode[T]]
	optional[T, L, B any]                        = seal.Type[func(Maybe[T], L, B), engine.HeldValueNode[T]]

	inputPort[T any]                          = seal.Type[func(T), port.Sender[T]]
	keyedInputPort[K comparable, V any]       = seal.Type[func(K, V), port.EntrySender[K, V]]
	sharedInputPort[T any]                    = seal.Type[func(NoOrder, T), port.Sender[T]]
	sharedKeyedInputPort[K comparable, V any] = seal.Type[func(NoOrder, K, V), port.EntrySender[K, V]]
	entryInputPort[K comparable, V any]       = seal.Type[func(Entry[K, V]), port.EntrySender[K, V]]
	outputPort[T any]                         = seal.Type[func() T, port.Receiver[T]]
	entryOutputPort[K comparable, V any]      = seal.Type[func(K) V, port.EntryReceiver[K, V]]
	singletonOutputPort[T any]                = seal.Type[func() T, port.ValueReceiver[T]]
	optionalOutputPort[T any]                 = seal.Type[func() Maybe[T], port.ValueReceiver[T]]

	view[K comparable, V any] = seal.Open[func(K, V), cow.View[K, V]]

	process     = seal.Open[*Process, engine.Place]
	cluster     = seal.Open[*Cluster, engine.Place]
	tick[L any] = seal.Open[*L, engine.Place]

	recording = seal.Open[*Recording, engine.Recording]
	recorder  = seal.Open[*Recorder, engine.FileRecorder]

	sequence[K comparable] = seal.Type[func(K) (client, number any), *operators.Sequence[K]]

	graph = seal.Field[*engine.Graph]
)

func newStream[T any, L, B, O, R any](n *engine.Node[T]) stream[T, L, B, O, R] {
	return seal.Make[func(T, L, B, O, R), engine.HeldNode[T]](n)
}

func newKeyedStream[K comparable, V, L, B, O, R any](n *engine.KeyedNode[K, V]) keyedStream[K, V, L, B, O, R] {
	return seal.Make[func(K, V, L, B, O, R), engine.HeldKeyedNode[K, V]](n)
}

func newSingleton[T, L, B any](c *engine.ValueNode[T]) singleton[T, L, B] {
	return seal.Make[func(T, L, B), engine.HeldValueNode[T]](c)
}

func newOptional[T, L, B any](c *engine.ValueNode[T]) optional[T, L, B] {
	return seal.Make[func(Maybe[T], L, B), engine.HeldValueNode[T]](c)
}

// placeOf returns the place of a location. It panics if the location was not made as an L.
func placeOf[L Location](at L, op string) engine.Place {
	return engine.PlaceOf(seal.Untyped(&at), reflect.TypeFor[L](), op)
}

// bind makes *p, a [Process] or a [Cluster], the location at.
func bind[P interface {
	*Process | *Cluster
	comparable
}](p P, at place) {
	if p == nil {
		engine.Misuse("dataflow.At", "%v embeds a pointer to a location: embed the location itself", at.in.Type)
	}
	*seal.Untyped(p).(*engine.Place) = at.in
}

func newInputPort[T any](in *port.Input[T]) *InputPort[T] {
	var p InputPort[T] = seal.Make[func(T), port.Sender[T]](in)
	return &p
}

func newSharedInputPort[T any](in *port.Input[T]) *SharedInputPort[T] {
	var p SharedInputPort[T] = seal.Make[func(NoOrder, T), port.Sender[T]](in)
	return &p
}

func newOutputPort[T any](out *port.Output[T]) *OutputPort[T] {
	var p OutputPort[T] = seal.Make[func() T, port.Receiver[T]](out)
	return &p
}

// The accessors of ports return nil for a port that no operator made; see made. Both are on
// the way of each record, and small enough to be inlined.

func (p *InputPort[T]) in() port.Sender[T] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *KeyedInputPort[K, V]) in() port.EntrySender[K, V] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *SharedInputPort[T]) in() port.Sender[T] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *SharedKeyedInputPort[K, V]) in() port.EntrySender[K, V] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *EntryInputPort[K, V]) in() port.EntrySender[K, V] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *OutputPort[T]) out() port.Receiver[T] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *EntryOutputPort[K, V]) out() port.EntryReceiver[K, V] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *SingletonOutputPort[T]) out() port.ValueReceiver[T] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

func (p *OptionalOutputPort[T]) out() port.ValueReceiver[T] {
	if p == nil {
		return nil
	}
	return seal.Value(*p)
}

// made returns port. It panics if no operator made the port.
func made[P comparable](port P, name string) P {
	var none P
	if port == none {
		engine.Unmade(name, "ports come from Input and Output functions")
	}
	return port
}

func newSequence[K comparable](s *operators.Sequence[K]) sequence[K] {
	return seal.Make[func(K) (client, number any)](s)
}

func viewOf[K comparable, V any](v View[K, V]) cow.View[K, V] { return seal.OpenValue(v) }
func newGraph(set engine.Settings) graph                      { return seal.FieldOf(live.Drive(engine.New(set))) }

// graphOf returns the engine's graph of a flow. It panics if New did not make the flow.
func graphOf(f *Flow) *engine.Graph {
	if f == nil || *seal.Pointer(f) == nil {
		engine.Unmade("dataflow.Flow", "make a flow with dataflow.New")
	}
	return *seal.Pointer(f)
}

// historyOf returns the history in a recording. The zero value is an empty recording.
func historyOf(r *Recording) *engine.Recording {
	if r == nil {
		engine.Unmade("dataflow.Recording", "make one with new(dataflow.Recording)")
	}
	return seal.Pointer(r)
}

// fileRecorderOf returns the engine's recorder. It panics if package recordings did not make r.
func fileRecorderOf(r *Recorder) engine.FileRecorder {
	if r == nil || *seal.Pointer(r) == nil {
		engine.Unmade("dataflow.Recorder", "recorders come from recordings.NewRecorder")
	}
	return *seal.Pointer(r)
}
