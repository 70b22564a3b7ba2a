package engine

import "github.com/millrace/millrace/internal/seal"

// A collection holds its node behind one of the interfaces below, each of which is implemented by one kind of node. So a package
// that only passes collections on, or has them in its types, does not mention nodes. The compiler generates all methods of an
// instantiated type anew in each package whose types lead to it, and from a node they lead to the whole engine.

// HeldNode is what a stream holds: a [Node].
type HeldNode[T any] interface {
	Header
	elements(T)
}

// HeldKeyedNode is what a keyed stream or a keyed singleton holds: a [KeyedNode].
type HeldKeyedNode[K comparable, V any] interface {
	Header
	entries(K, V)
}

// HeldValueNode is what a singleton or an optional holds: a [ValueNode].
type HeldValueNode[T any] interface {
	Header
	current(T)
}

func (n *Node[T]) elements(T)           {}
func (n *KeyedNode[K, V]) entries(K, V) {}
func (n *ValueNode[T]) current(T)       {}

// NodeOf returns the node of a stream, or nil for a zero value, which no operator made.
func NodeOf[Mark, T any](c seal.Type[Mark, HeldNode[T]]) *Node[T] {
	n, _ := seal.Value(c).(*Node[T])
	return n
}

// KeyedNodeOf returns the node of a keyed stream or a keyed singleton, or nil.
func KeyedNodeOf[Mark any, K comparable, V any](c seal.Type[Mark, HeldKeyedNode[K, V]]) *KeyedNode[K, V] {
	n, _ := seal.Value(c).(*KeyedNode[K, V])
	return n
}

// ValueNodeOf returns the node of a singleton or an optional, or nil.
func ValueNodeOf[Mark, T any](c seal.Type[Mark, HeldValueNode[T]]) *ValueNode[T] {
	n, _ := seal.Value(c).(*ValueNode[T])
	return n
}

// A Located is a node of any kind.
type Located interface {
	comparable
	Location() *Location
}

// Made returns n. It panics for the node of a zero value.
func Made[N Located](n N, op string) N {
	var none N
	if n == none {
		ZeroCollection(op)
	}
	return n
}

// Read returns n, the node of a collection, and a new operator that reads it and calls the given functions. It panics if one of
// them is nil.
func Read[N Located](n N, name string, functions ...any) (N, *Op) {
	Made(n, name)
	Given(name, functions...)
	return n, NewOp(n.Location(), name, "")
}

// ReadReasoned is [Read] for an operator that takes a reason.
func ReadReasoned[N Located, Why ~string](n N, name string, why Why, functions ...any) (N, *Op) {
	Made(n, name)
	Given(name, functions...)
	return n, Reasoned(n.Location(), name, string(why))
}

// ReadProved is [Read] for an operator that takes a proof.
func ReadProved[N Located, Why ~string](n N, name string, why Why, functions ...any) (N, *Op) {
	Made(n, name)
	Given(name, functions...)
	return n, Proved(n.Location(), name, string(why))
}

// OperatorOf returns the operator that made a collection.
func OperatorOf[Mark any, N Header](c seal.Type[Mark, N], op string) *Op {
	held := Header(seal.Value(c))
	if held == nil {
		ZeroCollection(op)
	}
	return held.Where().Op
}

// ZeroCollection panics because an operator was given a zero value.
func ZeroCollection(op string) {
	Misuse(op, "the collection is a zero value: collections come from operators and inputs")
}
