package window

import (
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/windows"
)

// A Shape says which spans contain a time. Shapes come from [Every], [Sliding], [Days] and
// [Months].
type Shape struct {
	size, step, offset time.Duration
	calendar           func(Time) (from, to Time)
}

// Every returns consecutive spans of one size. They begin at multiples of the size since 1970
// in UTC, so Every(24*time.Hour) returns the days of UTC. For the days of a zone use [Days].
func Every(size time.Duration) Shape {
	positive("window.Every", "size", size)
	return Shape{size: size, step: size}
}

// mostSliding is the maximum number of spans of a shape that contain a time. An event costs a
// probe for each of them.
const mostSliding = 64

// Sliding returns spans of one size. One begins at each multiple of step, which must divide
// the size. An event counts in size/step spans, at most 64. For a finer step use
// [Trailing], which has one aggregate for each event.
func Sliding(size, step time.Duration) Shape {
	positive("window.Sliding", "size", size)
	positive("window.Sliding", "step", step)
	switch {
	case size%step != 0:
		engine.Misuse("window.Sliding", "the step %v does not divide the size %v", step, size)
	case size/step > mostSliding:
		engine.Misuse("window.Sliding", "an event would be in %d spans, more than %d: use window.Trailing, which has one aggregate for each event", size/step, mostSliding)
	}
	return Shape{size: size, step: step}
}

// Days returns the days of a zone. A day begins at its first instant, whether or not the clock
// shows midnight then. It lasts as long as it does in that zone, usually 23, 24 or 25 hours. A
// program that must know zones without the files of an operating system imports time/tzdata.
//
// The span of a key is in the history, so new rules for a zone change no open span, and neither
// does a later program with another shape: such a span is closed at its end with the events
// that it has, and events that come after the change are in the spans of the new shape.
func Days(zone *time.Location) Shape { return calendarShape("window.Days", zone, day) }

// Months returns the months of a zone; see [Days].
func Months(zone *time.Location) Shape { return calendarShape("window.Months", zone, month) }

func calendarShape(name string, zone *time.Location, span func(Time, *time.Location) (from, to Time)) Shape {
	if zone == nil {
		engine.Misuse(name, "the zone is nil")
	}
	return Shape{calendar: func(t Time) (from, to Time) { return span(t, zone) }}
}

// Offset returns the shape with all spans moved by d, which may be negative.
func (s Shape) Offset(d time.Duration) Shape {
	s.offset += d
	return s
}

func (s Shape) spans(op string) windows.Shape {
	if s.size == 0 && s.calendar == nil {
		engine.Misuse(op, "the shape is a zero value: shapes come from window.Every, Sliding, Days and Months")
	}
	out := windows.Shape{Size: int64(s.size), Step: int64(s.step), Offset: int64(s.offset)}
	if s.calendar != nil {
		out.Calendar = func(t int64) (int64, int64) {
			from, to := s.calendar(Time(t).Add(-s.offset))
			return int64(from.Add(s.offset)), int64(to.Add(s.offset))
		}
	}
	return out
}

// positive panics if a duration is not positive.
func positive(op, what string, d time.Duration) {
	if d <= 0 {
		engine.Misuse(op, "the %s is %v", what, d)
	}
}

// notNegative panics if a duration is negative.
func notNegative(op, what string, d time.Duration) {
	if d < 0 {
		engine.Misuse(op, "the %s is %v", what, d)
	}
}
