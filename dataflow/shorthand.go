package dataflow

import "github.com/millrace/millrace/bounds"

// An OrderedStream is a [Stream] as [Input] returns it: it may go on forever, its elements have an order, and none is
// repeated. It is an alias, so a collection of one type is one of the other, too.
type OrderedStream[T any, L Location] = Stream[T, L, bounds.Unbounded, TotalOrder, ExactlyOnce]

// An OrderedKeyedStream is a [KeyedStream] as keyedstream.Input and [SenderInput] return it: it may go on forever, the
// values of a key have an order, and none is repeated. It is an alias, like [OrderedStream].
type OrderedKeyedStream[K comparable, V any, L Location] = KeyedStream[K, V, L, bounds.Unbounded, TotalOrder, ExactlyOnce]

// An UnorderedKeyedStream is a [KeyedStream] as keyedstream.SharedInput returns it: it may go on forever, the values of a
// key have no order, and none is repeated. It is an alias, like [OrderedStream].
type UnorderedKeyedStream[K comparable, V any, L Location] = KeyedStream[K, V, L, bounds.Unbounded, NoOrder, ExactlyOnce]

// A FixedKeyedSingleton is a [KeyedSingleton] as keyedsingleton.Input returns it, such as requests and their responses:
// keys are added over time, and the value of a key never changes. It is an alias, like [OrderedStream].
type FixedKeyedSingleton[K comparable, V any, L Location] = KeyedSingleton[K, V, L, bounds.BoundedValue]
