package window

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/windows"
)

// StampNow gives each element of s the time at which the location takes it, so that windows are
// windows of the clock. No element is late.
//
// The mark of the events goes on to the time of each element, and while nothing comes by itself
// to each multiple of every in UTC. So a window is closed at most every after its end, and at its
// end if that is a multiple of every. Each time is a step of the location, which a durable flow
// keeps like any other: let every be as long as results may wait.
//
// When the inputs before s have been closed the mark is [Future], as that of [Stamp] is: an app
// that is stopped ends no time, and neither does one that is durable. StampNow keeps no flow from
// ending. It panics if every is not positive.
//
// The clock is that of the location: what the system's clock showed when the history began, and
// what has passed since. It never goes back. A flow in memory does not notice that the system's
// clock is set. A durable one goes by that again when it is restored, see durable.Options.MaxGap,
// and its mark goes on over the time in which it was down. Times are part of a recording and of
// a durable history: they are the same when its steps are made again, also in another process.
// Elements that are taken in one step have one time.
//
// A stream without order stays one, although times only grow: put dataflow.AssumeOrder before
// StampNow. No element of s may come more than once: a repeat would have a time of its own, and
// [Unique] would not find it.
//
// In a simulation time begins in 1970, and a nanosecond passes with each element. The mark goes on
// by itself a few times only until something is sent, so let every be about as long as the
// windows there.
//
// # Nondeterminism
//
// The time of each element, and so the window that it is in, is the clock's choice.
func StampNow[T any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	s dataflow.Stream[T, L, bounds.Unbounded, O, R], every time.Duration, why dataflow.NonDet,
) dataflow.Stream[Event[T], L, bounds.Unbounded, O, R] {
	n, op := engine.ReadReasoned(engine.NodeOf(s), "window.StampNow", why)
	positive(op.Name, "period", every)
	return newStream[Event[T], L, bounds.Unbounded, O, R](windows.StampNow(n, op, eventOf[T], int64(every)))
}

// StampNowKeyed is [StampNow] of a keyed stream, with one mark for all keys. A stream without keys
// is stamped first and given keys then, by dataflow.KeyBy.
//
// # Nondeterminism
//
// The time of each element, and so the window that it is in, is the clock's choice.
func StampNowKeyed[K comparable, V any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], every time.Duration, why dataflow.NonDet,
) dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "window.StampNowKeyed", why)
	positive(op.Name, "period", every)
	return newKeyedStream[K, Event[V], L, bounds.Unbounded, O, R](windows.StampNowKeyed(n, op, eventOf[V], int64(every)))
}
