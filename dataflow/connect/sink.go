package connect

import (
	"context"
	"errors"
	"fmt"
)

// A Lane is the sequence of elements that one partition gives to one output of a flow. They are numbered 1, 2, 3, … from the
// beginning of the history, and keep their numbers.
type Lane struct {
	Flow, Output string
	Partition    int // over all locations
}

// String returns the parts of the lane, separated by slashes.
func (l Lane) String() string { return fmt.Sprintf("%s/%s/%d", l.Flow, l.Output, l.Partition) }

// An Effect says what happens to an element that is written twice.
type Effect interface{ Atomic | Idempotent | Repeats }

type (
	// Atomic is the effect of sinks that store the number of the last element with the data, in one transaction. Each element
	// exists once, in the order of the lane.
	Atomic struct{}
	// Idempotent is the effect of sinks whose content is the same after a second write of an element, because its key or number
	// determines where it is written. Readers may see an old value for a moment.
	Idempotent struct{}
	// Repeats is the effect of sinks that then contain the element twice. After a crash, this affects the elements since the last
	// one that the history knows to be handled.
	Repeats struct{}
)

// A Sink is a system to which lanes are written. Any number of goroutines may call its methods.
type Sink[T any, E Effect] interface {
	// Open opens a lane, shuts out all previous writers of the lane for ever, and returns the number of the last
	// element in the sink, zero for none. Nothing from another writer appears after Open has returned. For that it
	// must leave a mark in the system: only reading from it shuts nobody out. A sink that is not Atomic does not need
	// to shut out others, and may return zero.
	Open(ctx context.Context, l Lane) (w Writer[T, E], last uint64, err error)
}

// A Writer writes one lane. Only one goroutine uses it at a time.
type Writer[T any, E Effect] interface {
	// Write writes elements with the numbers first, first+1, …, and returns when they are as safe as the system makes them. If
	// another writer has opened the lane, it writes nothing and returns ErrFenced. After any other error it is not known what was
	// written, and the lane is opened again. Write returns the zero E. It must not retain xs.
	Write(ctx context.Context, first uint64, xs []T) (E, error)

	Close() error
}

// ErrFenced says that another writer has opened the lane.
var ErrFenced = errors.New("connect: another writer has taken the lane over")

// ErrAhead says that a sink contains elements that the flow has not given: the history of the
// flow is another one, or an older copy.
var ErrAhead = errors.New("connect: the sink has elements that the flow has not given")
