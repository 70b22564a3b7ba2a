package connect

import (
	"context"
	"errors"
	"fmt"
)

// A Lane is what one partition gives to one output of a flow. Its elements have the numbers 1, 2, 3, … from the beginning of the
// history on, and keep them.
type Lane struct {
	Flow, Output string
	Partition    int // number, over all locations
}

// String returns the lane's parts with slashes between them.
func (l Lane) String() string { return fmt.Sprintf("%s/%s/%d", l.Flow, l.Output, l.Partition) }

// An Effect is what becomes of an element that is written twice.
type Effect interface{ Atomic | Idempotent | Repeats }

type (
	// Atomic sinks keep the number of the last element with the data, in one transaction. Each element is there once, in the
	// lane's order.
	Atomic struct{}
	// Idempotent sinks have the same content after a second write of an element: its key or number is where it is written. Who
	// reads may see an old value for a moment.
	Idempotent struct{}
	// Repeats is of sinks that have the element twice: after a crash, those since the last one that the history knows to be handled.
	Repeats struct{}
)

// A Sink is a system that lanes are written to. Its methods may be called by any number of goroutines.
type Sink[T any, E Effect] interface {
	// Open shuts out whoever wrote the lane before, for ever, and returns the number of the last element that is there, zero for
	// none. Nothing of another writer appears once Open has returned, so it leaves a mark in the system: to look does not shut out.
	// A sink that is not Atomic has nobody to shut out, and may return zero.
	Open(ctx context.Context, l Lane) (w Writer[T, E], last uint64, err error)
}

// A Writer writes one lane. One goroutine uses it at a time.
type Writer[T any, E Effect] interface {
	// Write writes elements with the numbers first, first+1, …, and returns when they are as safe as the system makes them. It
	// returns ErrFenced, and nothing is written, if another writer has opened the lane. After any other error nobody knows what is
	// there, and the lane is opened again. It returns the zero E. It does not keep xs.
	Write(ctx context.Context, first uint64, xs []T) (E, error)

	Close() error
}

// ErrFenced says that another writer has opened the lane.
var ErrFenced = errors.New("connect: another writer has taken the lane over")

// ErrAhead says that a sink has elements that the flow has not given: its history is another one, or older.
var ErrAhead = errors.New("connect: the sink has elements that the flow has not given")
