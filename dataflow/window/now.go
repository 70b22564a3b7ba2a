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
// The mark of the events advances to the time of each element and, while nothing comes, to each
// multiple of every in UTC. So a window is closed at most every after its end, or at its end if
// that is a multiple of every. Each such time is a step of the location, which a durable flow
// keeps like any other: choose every as long as results may wait.
//
// When the inputs before s have been closed the mark is [Future], as for [Stamp]. Neither
// stopping an app nor closing an input of a durable flow ends time. StampNow does not keep a flow
// from ending. It panics if every is not positive.
//
// The clock is that of the location: the time of the system's clock when the history began, plus
// the time that has passed since. It never goes back. A flow in memory does not notice that the
// system's clock is set. A durable flow reads the system's clock again when it is restored, see
// durable.Options.MaxGap, and its mark advances over the time in which it was down. Times are
// part of a recording and of a durable history: they are the same when its steps are made again,
// also in another process. All elements that one step takes have the same time.
//
// A stream without order stays without order, although times only grow: put dataflow.AssumeOrder
// before StampNow. No element of s may come more than once: a repeat would have a different time,
// and [Unique] would not find it.
//
// In a simulation time begins in 1970, and a nanosecond passes with each element. While nothing
// is sent, the mark advances by itself only a few times, so choose every about as long as the
// windows there.
//
// # Nondeterminism
//
// The clock decides the time of each element, and so its window.
func StampNow[T any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	s dataflow.Stream[T, L, bounds.Unbounded, O, R], every time.Duration, why dataflow.NonDet,
) dataflow.Stream[Event[T], L, bounds.Unbounded, O, R] {
	n, op := engine.ReadReasoned(engine.NodeOf(s), "window.StampNow", why)
	positive(op.Name, "period", every)
	return newStream[Event[T], L, bounds.Unbounded, O, R](windows.StampNow(n, op, eventOf[T], int64(every)))
}

// StampNowKeyed is [StampNow] of a keyed stream, with one mark for all keys. Stamp a stream
// without keys first and give it keys with dataflow.KeyBy.
//
// # Nondeterminism
//
// The clock decides the time of each element, and so its window.
func StampNowKeyed[K comparable, V any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], every time.Duration, why dataflow.NonDet,
) dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "window.StampNowKeyed", why)
	positive(op.Name, "period", every)
	return newKeyedStream[K, Event[V], L, bounds.Unbounded, O, R](windows.StampNowKeyed(n, op, eventOf[V], int64(every)))
}
