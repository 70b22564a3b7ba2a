package window

import (
	"math"
	"time"
)

// A Time is an instant in nanoseconds since 1970 in UTC. Unlike a [time.Time] it has no zone
// and no monotonic clock reading, so equal instants are equal keys.
type Time int64

// The ends of time. No event is at one of them.
const (
	Past   Time = math.MinInt64 // before all times: the mark of a stream before its first event
	Future Time = math.MaxInt64 // after all times: the mark of a stream that has ended
)

// The first and the last instant that a Time can represent.
var (
	earliest = time.Unix(0, math.MinInt64)
	latest   = time.Unix(0, math.MaxInt64)
)

// TimeOf returns the instant of t. If t is outside the range of Time, like the zero time.Time,
// TimeOf returns [Past] or [Future].
func TimeOf(t time.Time) Time {
	switch {
	case t.Before(earliest):
		return Past
	case t.After(latest):
		return Future
	}
	return Time(t.UnixNano())
}

// Time returns the instant as a [time.Time] in UTC.
func (t Time) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

// String returns the instant in UTC in the form of RFC 3339, or the name of an end of time.
func (t Time) String() string {
	switch t {
	case Past:
		return "window.Past"
	case Future:
		return "window.Future"
	}
	return t.Time().Format(time.RFC3339Nano)
}

// Add returns the instant that is d later. A result beyond [Past] or [Future] is Past or
// Future, and adding to either of these two returns it unchanged.
func (t Time) Add(d time.Duration) Time {
	s := t + Time(d)
	switch {
	case t == Past || t == Future:
		return t
	case d > 0 && s < t:
		return Future
	case d < 0 && s > t:
		return Past
	}
	return s
}

// An Event is a value and the time at which it happened.
type Event[T any] struct {
	At    Time
	Value T
}

// With returns an event with the value u at the time of e.
func With[T, U any](e Event[T], u U) Event[U] { return Event[U]{e.At, u} }

// A Span is the time from From until just before To.
type Span struct{ From, To Time }

// A Key is a key in a span. At a dataflow.Cluster it is in the partition of the key, whatever the
// span.
type Key[K comparable] struct {
	Key  K `millrace:"place"`
	Span Span
}
