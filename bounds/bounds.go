// Package bounds names what may still change about a live collection.
//
// A bound is a phantom type: it carries no data and exists only as the last word of a
// collection's type. The compiler uses it to reject a program whose answer would depend
// on timing. A keyed singleton tracks its keys and its values separately:
//
//	bound            keys                      value of a key
//	---------------  ------------------------  --------------------------
//	Bounded          fixed                     immutable
//	BoundedValue     added over time           immutable once present
//	RetainedValue    added and forgotten       immutable while present
//	MonotonicValue   added over time           only grows
//	MonotonicKeys    added over time           changes freely
//	Unbounded        added and removed         changes freely
//
// The time from a key's appearance until it is forgotten is a life of the key. Under
// RetainedValue a key may have several lives, one after the other, each with one value.
// Forgetting is not retraction: results made from an entry stay valid, and the library
// only stops remembering the entry. Stream elements made from the entry are not taken
// back. Outputs, counts, timers and calls of the key end with its life.
//
// A stream has no values to revise, so only [Bounded] and [Unbounded] apply to it. A
// singleton has no keys, so [Bounded], [MonotonicValue] and [Unbounded] apply to it.
//
// # Constraints
//
// Every constraint lists the bounds that satisfy it. A constraint that an operator
// requires also has a method. Its only job is to finish the sentence when the compiler
// rejects a program:
//
//	B (type bounds.MonotonicKeys) does not satisfy bounds.FixedValues[Keys]
//	(missing method valuesNeverChange)
//
// There are two kinds of constraint. [Stream], [Singleton] and [KeyedSingleton] list
// the bounds that a collection may carry. The others say what an operator needs
// ([Complete], [FixedValues], [Permanent], [GrowingValues], [Changing], [Growing]) or
// what it produces. The latter take a type parameter that the compiler computes, so a
// caller never writes it:
//
//	keyed singleton  Keyed      Counted         Mapped         Filtered
//	---------------  ---------  --------------  -------------  -------------
//	Bounded          Bounded    Bounded         Bounded        Bounded
//	BoundedValue     Unbounded  MonotonicValue  BoundedValue   BoundedValue
//	RetainedValue    Unbounded  Unbounded       RetainedValue  RetainedValue
//	MonotonicValue   Unbounded  MonotonicValue  MonotonicKeys  Unbounded
//	MonotonicKeys    Unbounded  MonotonicValue  MonotonicKeys  Unbounded
//	Unbounded        Unbounded  Unbounded       Unbounded      Unbounded
//
//	keyed singleton  FixedValues  FixedValuesLater  Forgotten
//	---------------  -----------  ----------------  -------------
//	Bounded          Bounded      BoundedValue      refused
//	BoundedValue     Unbounded    BoundedValue      RetainedValue
//	RetainedValue    Unbounded    RetainedValue     RetainedValue
//	MonotonicValue   refused      refused           Unbounded
//	MonotonicKeys    refused      refused           Unbounded
//	Unbounded        refused      refused           Unbounded
//
//	keyed stream     Final         Folded         FoldedGrowing
//	---------------  ------------  -------------  --------------
//	Bounded          Bounded       Bounded        Bounded
//	Unbounded        BoundedValue  MonotonicKeys  MonotonicValue
//
//	singleton        Altered    Growing
//	---------------  ---------  ---------
//	Bounded          Bounded    Bounded
//	MonotonicValue   Unbounded  Unbounded
//	Unbounded        Unbounded  refused
//
// A generic helper that calls such an operator repeats the computed parameter:
//
//	func shout[B bounds.Mapped[Out], Out bounds.KeyedSingleton](
//		ks dataflow.KeyedSingleton[string, string, Server, B],
//	) dataflow.KeyedSingleton[string, string, Server, Out] {
//		return keyedsingleton.Map(ks, strings.ToUpper)
//	}
package bounds

// Bounded marks a collection that is finite, known as a whole, and will not change.
type Bounded struct{}

// BoundedValue marks a keyed singleton that gains keys over time. It never removes a
// key and never changes the value of a key that is present.
type BoundedValue struct{}

// RetainedValue marks a keyed singleton that gains keys over time and forgets them. It
// never changes the value of a key while the key is present. A forgotten key may come
// again with another value.
type RetainedValue struct{}

// MonotonicValue marks a keyed singleton that never removes a key and whose values
// only grow, or a singleton whose value only grows.
type MonotonicValue struct{}

// MonotonicKeys marks a keyed singleton that never removes a key but whose values
// may change freely.
type MonotonicKeys struct{}

// Unbounded marks a collection that may change in any way at any time.
type Unbounded struct{}

// Stream is the set of bounds a stream or keyed stream may carry.
type Stream interface {
	Bounded | Unbounded
}

// Singleton is the set of bounds a singleton may carry.
type Singleton interface {
	Bounded | MonotonicValue | Unbounded
}

// KeyedSingleton is the set of bounds a keyed singleton may carry.
type KeyedSingleton interface {
	Bounded | BoundedValue | RetainedValue | MonotonicValue | MonotonicKeys | Unbounded
}

// Complete is satisfied only by [Bounded]. An operator that requires it reads a whole
// collection at once, so the collection must not grow further.
//
// To read a changing collection at a moment of the runtime's choosing, take a slice of
// it; see package slice.
type Complete interface {
	Bounded
}

// FixedValues is satisfied by the bounds under which a key's value never changes while
// the key is present. Keys is the bound of a stream with one element for each life of a
// key.
//
// Operators that turn entries into stream elements require it: an element cannot be
// taken back, so its entry must not change after it was emitted. For a collection whose
// values change, take a slice.SnapshotEntries.
type FixedValues[Keys Stream] interface {
	Bounded | BoundedValue | RetainedValue
	valuesNeverChange() Keys
}

// FixedValuesLater is satisfied by the bounds of [FixedValues]. Out is the bound of a
// result that arrives later for each entry: the answer of a call, the firing of a
// timer, or the entry at another location.
type FixedValuesLater[Out KeyedSingleton] interface {
	Bounded | BoundedValue | RetainedValue
	valuesNeverChangeLater() Out
}

// Permanent is satisfied by the bounds under which an entry stays for good once it is
// present. Keys is the bound of a collection that follows the whole content.
type Permanent[Keys Stream] interface {
	Bounded | BoundedValue
	entriesStay() Keys
}

// GrowingValues is satisfied by the bounds under which a key's value never shrinks,
// so that a threshold, once crossed, stays crossed.
type GrowingValues[Keys Stream] interface {
	Bounded | BoundedValue | MonotonicValue
	valuesNeverShrink() Keys
}

// Changing is satisfied by the bounds under which the content may change: a value is
// revised or a key goes. Reading such a collection means taking a snapshot. The entries
// of a collection whose values are fixed are read with slice.BatchEntries instead; a
// collection that forgets keys allows both.
type Changing interface {
	RetainedValue | MonotonicValue | MonotonicKeys | Unbounded
	contentMayChange()
}

// Keyed is satisfied by every bound of a keyed singleton. Keys is the bound of a stream
// or singleton that follows its whole content.
type Keyed[Keys Stream] interface {
	KeyedSingleton
	keys() Keys
}

// Counted is satisfied by every bound of a keyed singleton. Out is the bound of the
// number of its keys. The number only grows where keys are never removed.
type Counted[Out Singleton] interface {
	KeyedSingleton
	counted() Out
}

// Mapped is satisfied by every bound of a keyed singleton. Out is the bound after
// its values pass through a function that need not preserve their order.
type Mapped[Out KeyedSingleton] interface {
	KeyedSingleton
	mapped() Out
}

// Filtered is satisfied by every bound of a keyed singleton. Out is the bound after
// some entries are dropped by their value: where values change, an entry may now
// come and go.
type Filtered[Out KeyedSingleton] interface {
	KeyedSingleton
	filtered() Out
}

// Final is satisfied by every bound of a stream. Out is the bound of a keyed
// singleton that settles on one value for each key and keeps it.
type Final[Out KeyedSingleton] interface {
	Stream
	final() Out
}

// Folded is satisfied by every bound of a stream. Out is the bound of a keyed
// singleton holding, for each key, a running aggregate.
type Folded[Out KeyedSingleton] interface {
	Stream
	folded() Out
}

// FoldedGrowing is like [Folded] for an aggregate that only grows. Out is also the
// bound of the same aggregate of a plain stream when it is used as a singleton.
type FoldedGrowing[Out Aggregate] interface {
	Stream
	foldedGrowing() Out
}

// Aggregate is the set of bounds of an aggregate that only grows.
type Aggregate interface {
	Bounded | MonotonicValue
}

// Altered is satisfied by every bound of a singleton. Out is the bound after its
// value passes through a function that need not preserve its order.
type Altered[Out Stream] interface {
	Singleton
	altered() Out
}

// Growing is satisfied by the bounds under which the value of a singleton never
// shrinks, so that a threshold, once crossed, stays crossed. Out is the bound of a
// stream that reports the crossing.
//
// If a value only grows because of what it counts or adds, declare it with
// dataflow.FoldGrowing or singleton.MapGrowing, which take a proof.
type Growing[Out Stream] interface {
	Bounded | MonotonicValue
	valueNeverShrinks() Out
}

// Forgotten is satisfied by the bounds of a keyed singleton that can still change.
// [Bounded] does not satisfy it, because nothing happens later inside a slice. Out is
// the bound after entries are forgotten.
type Forgotten[Out KeyedSingleton] interface {
	BoundedValue | RetainedValue | MonotonicValue | MonotonicKeys | Unbounded
	canBeForgotten() Out
}
