package sim

import (
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

// A View is what a property of a specification looks at: what clients have done and seen, and the
// elements of outputs. A property may also look at ports with Latest, Get, Len and Has. It must
// not use them in another way: it must not take, send, wait or close. It must not read variables
// of clients.
//
// What a property looks at between moves is noted, and moves that change it are tried in every
// order. This is noted for each property separately. So a property that looks at many things is
// expensive. At the end of a schedule, only the order of operations in History costs anything.
type View struct {
	spec   *specRun
	number int // of the property
	end    bool
}

// An Op is something that a client has done: a use of a port, or a [Call].
type Op struct {
	Client string
	Port   string // the name of the port, or of the Call
	Do     string // "send", "put", "close", "next", "await", "take", "take next", "get", "len", "latest", "watch", "has" or "call"
	Key    any    // nil if the port has no keys
	Value  any    // what was sent or received; a slice for a batch; the result of a Call
	Input  any    // of a Call
	OK     bool   // whether something was received, the key was found, or what was sent was accepted
	Err    error  // the error that the client received

	// Call and Return are the numbers of the moves in which it began and ended. They are the same
	// unless it is a Call. Return is 0 while a Call has not returned.
	Call, Return int64
}

// History returns what all clients have done so far, in the order in which the operations began.
// A property that looks at it makes the uses of ports of different clients depend on each other.
func (v *View) History() []Op {
	for i := range v.spec.clients {
		v.spec.looks(v.number, client(i))
	}
	return v.spec.ops()
}

// Ops returns what one client has done so far, in order.
func (v *View) Ops(name string) (all []Op) {
	i := slices.Index(v.spec.plan.clients, name)
	if i < 0 {
		panic("sim: no client of the specification has the name " + name)
	}
	if !v.end {
		v.spec.looks(v.number, client(i))
	}
	for _, op := range v.spec.ops() {
		if op.Client == name {
			all = append(all, op)
		}
	}
	return all
}

// Done reports whether the client has returned.
func (v *View) Done(name string) bool {
	i := slices.Index(v.spec.plan.clients, name)
	if i < 0 {
		panic("sim: no client of the specification has the name " + name)
	}
	if !v.end {
		v.spec.looks(v.number, client(i))
	}
	return v.spec.clients[i].done
}

// Elements returns everything that the output has received so far, whether it was read or not.
// Elements of a stream without order are in no particular order. As with [Collect], not every
// order of them is tried if a property looks at them only when the flow is at rest.
func Elements[T any](v *View, out *dataflow.OutputPort[T]) []T {
	if v == nil || out == nil {
		panic("sim: Elements without a View or without an output")
	}
	return outputOf(out).Given()
}

// client is the object for what client number i has done.
func client(i int) engine.Object { return engine.Object{Location: clientsAt, Op: int32(i)} }

// clientOp is the object for what client number i has done at a port, or in a Call.
func clientOp(i int, name string) engine.Object {
	return engine.Object{Location: clientsAt, Op: int32(i), Key: max(digest.Of(name), 1)}
}
