package window

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/windows"
)

// Disorder says how far out of order a stream may be. The zero value means not at all.
type Disorder struct {
	// Slack is how much older than the newest element an element may be.
	Slack time.Duration
	// Confirm is how many elements must be as new before the mark follows them, so that one wrong
	// clock does not make everything else late. 0 means 1. It counts elements, so it must not be
	// used for a stream that may repeat one.
	Confirm int
}

// Stamp gives each element of s the time that at returns for it. The mark of the events is the
// largest time so far, less the slack.
//
// An element that is older than the current mark is late, and so is one without a time: it goes
// to late instead of events, and is in no window. Stamp decides that once, by the order of s
// alone, so no operator after it needs a reason.
//
// When the inputs before s have been closed the mark is [Future]: time has ended. Neither
// stopping an app nor closing an input of a durable flow, whose history goes on, ends time.
func Stamp[T any, L dataflow.Location, O dataflow.Ordered, R dataflow.Retries](
	s dataflow.Stream[T, L, bounds.Unbounded, O, R], at func(T) Time, disorder Disorder,
) (events, late dataflow.Stream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R]) {
	n, op := engine.Read(engine.NodeOf(s), "window.Stamp", at)
	e, l := windows.Stamp(n, op, instantOf(at), eventOf[T], clockOf[T, R](op.Name, disorder))
	return newStream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R](e), newStream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R](l)
}

// StampBy is [Stamp] for a stream whose elements carry the mark: mark returns a time before which
// nothing comes after x, and true, if x carries one.
func StampBy[T any, L dataflow.Location, O dataflow.Ordered, R dataflow.Retries](
	s dataflow.Stream[T, L, bounds.Unbounded, O, R], at func(T) Time, mark func(x T) (Time, bool),
) (events, late dataflow.Stream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R]) {
	n, op := engine.Read(engine.NodeOf(s), "window.StampBy", at, mark)
	says := func(x T) (int64, bool) {
		to, ok := mark(x)
		return int64(to), ok
	}
	e, l := windows.Stamp(n, op, instantOf(at), eventOf[T], windows.Clock[T]{Says: says})
	return newStream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R](e), newStream[Event[T], L, bounds.Unbounded, dataflow.TotalOrder, R](l)
}

// Mark returns the mark of events, which only grows: no event before it is still to come.
func Mark[T any, L dataflow.Location, O dataflow.Order, R dataflow.Retries](
	events dataflow.Stream[Event[T], L, bounds.Unbounded, O, R],
) dataflow.Singleton[Time, L, bounds.MonotonicValue] {
	n, op := engine.Read(engine.NodeOf(events), "window.Mark")
	return newSingleton[Time, L, bounds.MonotonicValue](windows.Value[Time](op, &n.Head))
}

// Idle returns events with a mark that advances by the clock while nothing comes, so that a
// silent source does not hold up the streams that it is merged or joined with.
//
// Whenever nothing has come for quiet to any input before the events, the mark advances by quiet.
// An event that then comes before the mark is late: it goes to late instead of still. If the mark
// has not moved at all, as before the first event, other streams wait for this one only until
// quiet has passed. After that a merge or join takes the mark of its other streams. The first
// event is late if it is before the mark of the combined stream, which is [Future] if all others
// have ended.
//
// After Send from a Cluster, a partition that has sent no mark is waited for only until quiet has
// passed since the first mark came from another partition. A later event from it is late if it is
// before the mark. A partition that has sent a mark is waited for: Idle before Send moves that
// mark by the clock.
//
// Silence is measured at the inputs, by the clock of the location. A record of an input counts
// even if it is filtered out on the way, or is late. A record that waits while the location is
// busy, or stopped by an unread output, counts when it is taken, before any silence ends there.
// Time in which a durable location is stopped by an output counts as if something had come. Idle
// does not keep a flow from ending. It panics if quiet is not positive.
//
// # Nondeterminism
//
// The clock decides the mark when an event comes, and so which events are late.
func Idle[T any, L dataflow.Location, O dataflow.Order, R dataflow.Retries](
	events dataflow.Stream[Event[T], L, bounds.Unbounded, O, R], quiet time.Duration, why dataflow.NonDet,
) (still, late dataflow.Stream[Event[T], L, bounds.Unbounded, O, R]) {
	n, op := engine.ReadReasoned(engine.NodeOf(events), "window.Idle", why)
	positive(op.Name, "quiet", quiet)
	s, l := windows.Idle(n, op, timeOf[T], int64(quiet))
	return newStream[Event[T], L, bounds.Unbounded, O, R](s), newStream[Event[T], L, bounds.Unbounded, O, R](l)
}

// timeOf returns the time of an event.
func timeOf[T any](e *Event[T]) int64 { return int64(e.At) }

func eventOf[T any](t int64, x T) Event[T] { return Event[T]{Time(t), x} }

func instantOf[T any](at func(T) Time) func(T) int64 {
	return func(x T) int64 { return int64(at(x)) }
}

func clockOf[T any, R dataflow.Retries](op string, d Disorder) windows.Clock[T] {
	notNegative(op, "slack", d.Slack)
	if d.Confirm < 0 {
		engine.Misuse(op, "Confirm is %d", d.Confirm)
	}
	if _, repeats := any(*new(R)).(dataflow.AtLeastOnce); repeats && d.Confirm > 1 {
		engine.Misuse(op, "Confirm is %d, and an element of this stream may come more than once: it would confirm itself", d.Confirm)
	}
	return windows.Clock[T]{Slack: int64(d.Slack), Confirm: d.Confirm}
}

// StampKeyed is [Stamp] of a keyed stream, with one mark for all keys.
//
// # Nondeterminism
//
// The runtime chooses the order between keys, which decides which elements are late; why says
// that this does not matter, or that the slack is enough.
func StampKeyed[K comparable, V any, L dataflow.Location, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], at func(V) Time, disorder Disorder, why dataflow.NonDet,
) (events, late dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R]) {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "window.StampKeyed", why, at)
	e, l := windows.StampKeyed(n, op, instantOf(at), eventOf[V], clockOf[V, R](op.Name, disorder))
	return newKeyedStream[K, Event[V], L, bounds.Unbounded, O, R](e), newKeyedStream[K, Event[V], L, bounds.Unbounded, O, R](l)
}
