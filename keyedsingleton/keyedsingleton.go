// Package keyedsingleton defines functions on a [dataflow.KeyedSingleton], a map that
// stays live: one value for each key.
//
// Its main use is one value per request key. A service takes a keyed singleton of
// requests and returns one of responses; [Map] turns each request into exactly one
// response, whenever it arrives:
//
//	in, requests := keyedsingleton.Input[RequestID, Request](server, "requests")
//	out := keyedsingleton.Output(keyedsingleton.Map(requests, handle), "responses")
//
//	in.Put(ctx, id, request)
//	response, err := out.Await(ctx, id)
//
// What a function accepts and returns depends on the collection's bound; the tables
// in package bounds are the key to the signatures here.
package keyedsingleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// Input returns a port and the keyed singleton of the entries put there. A key can be put once.
// The name appears in errors, traces and graphs.
//
// It remembers each key forever, in 22 to 32 bytes plus the key itself. Where clients count
// their keys, [dataflow.Sequenced] remembers them in a bit or less. [InputWithin] forgets keys.
func Input[K comparable, V any, L dataflow.Location](
	at L, name string, how ...dataflow.Sequence[K],
) (*dataflow.EntryInputPort[K, V], dataflow.KeyedSingleton[K, V, L, bounds.BoundedValue]) {
	location := placeOf(at, "keyedsingleton.Input").Input("keyedsingleton.Input")
	op := engine.NewOp(location, "keyedsingleton.Input "+name, "")
	in, n := port.NewEntryInput[K, V](location, op, sequenceOf(op.Name, how))
	return newEntryInputPort(in), newKeyedSingleton[K, V, L, bounds.BoundedValue](n)
}

// InputWithin is [Input] with limited memory: a key that was put is refused with
// [dataflow.ErrDuplicateKey] for as long as it is remembered. After that it can be put again,
// with another value. That ends one life of the key and begins another: see
// bounds.RetainedValue.
//
// It keeps the keys that it remembers, in some 40 bytes plus twice the key, and takes O(1) for
// each entry. A flow ends without waiting for a key to be forgotten. A retain without Keys and
// For, with a negative field, or with Open panics.
//
// # Nondeterminism
//
// Which keys are forgotten when an entry is put depends on the order in which others come, and
// on the clock if For is set; why says that no repeat comes so late, or that it does no harm.
func InputWithin[K comparable, V any, L dataflow.Location](
	at L, name string, retain dataflow.Retain, why dataflow.NonDet,
) (*dataflow.EntryInputPort[K, V], dataflow.KeyedSingleton[K, V, L, bounds.RetainedValue]) {
	location := placeOf(at, "keyedsingleton.InputWithin").Input("keyedsingleton.InputWithin")
	op := engine.Reasoned(location, "keyedsingleton.InputWithin "+name, string(why))
	if retain.Keys < 0 || retain.For < 0 || retain.Open != 0 || retain.Keys == 0 && retain.For == 0 {
		engine.Misuse(op.Name, "nothing would be remembered for %d keys and %v, with %v for what is open: set Keys or For, and nothing else", retain.Keys, retain.For, retain.Open)
	}
	in, n := port.NewEntryInput[K, V](location, op, nil)
	kept := operators.FirstWithin(n, op, operators.Retain(retain))
	port.ForgetGone(in, kept)
	return newEntryInputPort(in), newKeyedSingleton[K, V, L, bounds.RetainedValue](kept)
}

// Output returns a port for reading the value of each key once the value exists. Unlike an
// output of a stream it need not be read: an entry stays in the output until it is taken. A
// [ForgetAfter] before the output limits that time.
//
// Values must be fixed, because a value that was read cannot be taken back. If ks is a
// bounds.RetainedValue, an entry leaves the output when it is forgotten:
// dataflow.EntryOutputPort.Await returns the value of the key's present life, or waits for that
// of the next. A caller that waits when an entry appears receives it, even if the same step
// forgets the entry.
func Output[K comparable, V any, L dataflow.Location, B bounds.FixedValues[Keys], Keys bounds.Stream](
	ks dataflow.KeyedSingleton[K, V, L, B], name string,
) *dataflow.EntryOutputPort[K, V] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Output "+name)
	return newEntryOutputPort(port.NewEntryOutput(n, op))
}

// Map returns f of each value, under its key. The results for values that only grow may change
// in any way, since f need not preserve order.
//
// The function must be pure: it is called again when the value changes, and possibly when the
// value is read.
func Map[K comparable, V, U any, L dataflow.Location, B bounds.Mapped[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(V) U,
) dataflow.KeyedSingleton[K, U, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Map", f)
	return newKeyedSingleton[K, U, L, Out](operators.KMap(n, op, f))
}

// MapWithKey is [Map] for a function that also sees the key.
func MapWithKey[K comparable, V, U any, L dataflow.Location, B bounds.Mapped[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(K, V) U,
) dataflow.KeyedSingleton[K, U, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.MapWithKey", f)
	return newKeyedSingleton[K, U, L, Out](operators.KMapWithKey(n, op, f))
}

// Filter returns the entries whose value satisfies keep. Where values change, an
// entry comes and goes with its value, so the result is Unbounded.
func Filter[K comparable, V any, L dataflow.Location, B bounds.Filtered[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], keep func(V) bool,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Filter", keep)
	return newKeyedSingleton[K, V, L, Out](operators.KFilterMap(n, op, func(_ K, v V) (V, bool) { return v, keep(v) }))
}

// FilterWithKey is [Filter] for a function that also sees the key.
func FilterWithKey[K comparable, V any, L dataflow.Location, B bounds.Filtered[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], keep func(K, V) bool,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.FilterWithKey", keep)
	return newKeyedSingleton[K, V, L, Out](operators.KFilterMap(n, op, func(k K, v V) (V, bool) { return v, keep(k, v) }))
}

// FilterMap returns the result of f for each value for which f returns true, under the value's
// key. Where values change, the result is Unbounded, as for [Filter].
func FilterMap[K comparable, V, U any, L dataflow.Location, B bounds.Filtered[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(V) (U, bool),
) dataflow.KeyedSingleton[K, U, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.FilterMap", f)
	return newKeyedSingleton[K, U, L, Out](operators.KFilterMap(n, op, func(_ K, v V) (U, bool) { return f(v) }))
}

// FilterMapWithKey is [FilterMap] for a function that also sees the key.
func FilterMapWithKey[K comparable, V, U any, L dataflow.Location, B bounds.Filtered[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(K, V) (U, bool),
) dataflow.KeyedSingleton[K, U, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.FilterMapWithKey", f)
	return newKeyedSingleton[K, U, L, Out](operators.KFilterMap(n, op, f))
}

// Inspect calls f with each value, and again when the value changes, and returns ks. It calls f
// whether or not anything reads the result.
func Inspect[K comparable, V any, L dataflow.Location, B bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(V),
) dataflow.KeyedSingleton[K, V, L, B] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Inspect", f)
	return newKeyedSingleton[K, V, L, B](operators.KInspect(n, op, func(_ K, v V) { f(v) }))
}

// InspectWithKey is [Inspect] for a function that also sees the key.
func InspectWithKey[K comparable, V any, L dataflow.Location, B bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(K, V),
) dataflow.KeyedSingleton[K, V, L, B] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.InspectWithKey", f)
	return newKeyedSingleton[K, V, L, B](operators.KInspect(n, op, f))
}
