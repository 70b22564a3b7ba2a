package window

import "time"

// dayStart returns the first instant of a day in a zone. That is not time.Date at midnight,
// since midnight may not exist or may come twice: in São Paulo time.Date gives 23:00 of 3
// November 2018 for the midnight of the fourth. For a day that a zone skipped it returns
// the first instant of the next day.
func dayStart(y int, m time.Month, d int, zone *time.Location) time.Time {
	day := func(t time.Time) int64 { // day of the calendar, without a zone
		y, m, d := t.In(zone).Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	}
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	want := midnight.Unix()
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	begin, end := t.ZoneBounds()
	candidates := []time.Time{t, begin, end}
	if !begin.IsZero() {
		_, before := begin.Add(-1).In(zone).Zone()
		candidates = append(candidates, midnight.Add(-time.Duration(before)*time.Second))
	}
	var first time.Time
	for _, c := range candidates {
		if c.IsZero() || day(c) < want || day(c.Add(-1)) >= want {
			continue
		}
		if first.IsZero() || c.Before(first) {
			first = c
		}
	}
	return first.In(zone)
}

// calendar returns the span of days or months that contains t. A span begins at the instant
// that start returns, for the n-th span from the day y-m-d on.
func calendar(t Time, zone *time.Location, start func(y int, m time.Month, d, n int) time.Time) (from, to Time) {
	y, m, d := t.Time().In(zone).Date()
	n := 0
	// A clock that is set back soon after midnight shows the day before once more. That
	// time is part of the day that has begun.
	for from, to = TimeOf(start(y, m, d, n)), TimeOf(start(y, m, d, n+1)); t >= to && to < Future; n++ {
		from, to = to, TimeOf(start(y, m, d, n+2))
	}
	return from, to
}

func day(t Time, zone *time.Location) (from, to Time) {
	return calendar(t, zone, func(y int, m time.Month, d, n int) time.Time { return dayStart(y, m, d+n, zone) })
}

func month(t Time, zone *time.Location) (from, to Time) {
	return calendar(t, zone, func(y int, m time.Month, _, n int) time.Time { return dayStart(y, m+time.Month(n), 1, zone) })
}
