package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// These are the operations of the models. The comments say what [Operation].Output has to be.
type (
	// Read reads a register; its output is the value.
	Read struct{}
	// Write sets a register; its output is nil.
	Write struct{ Value any }

	// Add adds to a counter; its output is the new value, an int.
	Add struct{ N int }

	// Get reads a counter or an entry of [PutOnce]. Its output is an int for a counter, and a
	// [Found] for an entry.
	Get struct{}
	// Put makes an entry unless it exists; its output says whether it was made.
	Put struct{ Value any }

	// Insert adds to a set; its output says whether the value was new.
	Insert struct{ Value any }
	// Remove removes from a set; its output says whether the value was in it.
	Remove struct{ Value any }
	// Has looks a value up in a set; its output says whether the value is in it.
	Has struct{ Value any }

	// Enqueue appends to a queue; its output is nil.
	Enqueue struct{ Value any }
	// Dequeue takes the first element of a queue; its output is a [Found].
	Dequeue struct{}

	// Acquire takes a lock unless it is held; its output says whether it was free.
	Acquire struct{ By any }
	// Release releases a lock; its output says whether By held it.
	Release struct{ By any }

	// Found is the result of a read: a value, or OK = false if there is none.
	Found struct {
		Value any
		OK    bool
	}
)

// Register is a value that is read and written, with the given initial value. Its operations are
// [Read] and [Write].
func Register(initial any) Model {
	return exact("Register", initial, func(state, input any) (next, output any, ok bool) {
		switch in := input.(type) {
		case Read:
			return state, state, true
		case Write:
			return in.Value, nil, true
		}
		return nil, nil, false
	})
}

// Counter is a sum that starts at 0. Its operations are [Add] and [Get].
func Counter() Model {
	return exact("Counter", 0, func(state, input any) (next, output any, ok bool) {
		switch in := input.(type) {
		case Add:
			sum := state.(int) + in.N
			return sum, sum, true
		case Get:
			return state, state, true
		}
		return nil, nil, false
	})
}

// Set is a set of comparable values that is empty at first. Its operations are [Insert], [Remove]
// and [Has].
func Set() Model {
	return exact("Set", map[any]bool{}, func(state, input any) (next, output any, ok bool) {
		all := state.(map[any]bool)
		switch in := input.(type) {
		case Insert:
			more := maps.Clone(all)
			more[in.Value] = true
			return more, !all[in.Value], true
		case Remove:
			less := maps.Clone(all)
			delete(less, in.Value)
			return less, all[in.Value], true
		case Has:
			return all, all[in.Value], true
		}
		return nil, nil, false
	})
}

// Queue is a queue that is empty at first. Its operations are [Enqueue] and [Dequeue].
func Queue() Model {
	return exact("Queue", []any{}, func(state, input any) (next, output any, ok bool) {
		all := state.([]any)
		switch in := input.(type) {
		case Enqueue:
			return append(slices.Clone(all), in.Value), nil, true
		case Dequeue:
			if len(all) == 0 {
				return all, Found{}, true
			}
			return slices.Clone(all[1:]), Found{all[0], true}, true
		}
		return nil, nil, false
	})
}

// Lock is a lock that is free at first. Its operations are [Acquire], which does not wait, and
// [Release].
func Lock() Model {
	return exact("Lock", Found{}, func(state, input any) (next, output any, ok bool) {
		held := state.(Found)
		switch in := input.(type) {
		case Acquire:
			if held.OK {
				return held, false, true
			}
			return Found{in.By, true}, true, true
		case Release:
			if !held.OK || !same(held.Value, in.By) {
				return held, false, true
			}
			return Found{}, true, true
		}
		return nil, nil, false
	})
}

// PutOnce is an entry that keeps its first value, like an entry of a keyed singleton. Its
// operations are [Put] and [Get].
func PutOnce() Model {
	return exact("PutOnce", Found{}, func(state, input any) (next, output any, ok bool) {
		entry := state.(Found)
		switch in := input.(type) {
		case Put:
			if entry.OK {
				return entry, false, true
			}
			return Found{in.Value, true}, true, true
		case Get:
			return entry, entry, true
		}
		return nil, nil, false
	})
}

// exact returns a model in which an operation has exactly one output in each state. An operation
// that does not belong to the model panics, which Check reports.
func exact(name string, initial any, apply func(state, input any) (next, output any, ok bool)) Model {
	return Model{
		Init: func() any { return initial },
		Step: func(state, input, output any) (bool, any) {
			next, is, ok := apply(state, input)
			if !ok {
				panic(fmt.Sprintf("%T is no operation of linear.%s", input, name))
			}
			if _, none := output.(unknown); none {
				return true, next
			}
			return same(is, output), next
		},
		String: func(input, output any) string {
			return fmt.Sprintf("%s%+v = %+v", typeName(input), input, output)
		},
	}
}

// typeName returns the name of an operation's type.
func typeName(input any) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", input), "linear.")
}
