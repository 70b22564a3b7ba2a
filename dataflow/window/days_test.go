package window

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/millrace/millrace/internal/long"
)

// TestDays walks through 60 years in up to 17 zones. The days of a zone follow each other without a
// gap, and each begins where the date changes.
func TestDays(t *testing.T) {
	zones := []string{
		"Europe/Berlin", "America/Havana", "Pacific/Apia", "Asia/Gaza", "UTC", "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "Asia/Tehran", "Africa/Cairo",
		"America/Santiago", "America/Asuncion", "America/St_Johns", "Pacific/Kwajalein", "Australia/Lord_Howe", "Asia/Kathmandu", "Asia/Amman",
	}
	for _, name := range zones[:long.Of(4, len(zones))] {
		zone := in(t, name)
		last := dayStart(1970, 1, 1, zone)
		for d := 2; d < 60*365; d++ {
			start := dayStart(1970, 1, d, zone)
			if start.IsZero() {
				t.Fatalf("%s: day %d has no start", name, d)
			}
			n := start.Sub(last)
			if n < 0 || n > 26*time.Hour {
				t.Errorf("%s: %v is %v after %v", name, start, n, last)
			}
			for _, x := range []Time{TimeOf(last), TimeOf(last.Add(n / 2)), TimeOf(start) - 1} {
				if from, to := day(x, zone); n > 0 && (from != TimeOf(last) || to != TimeOf(start)) {
					t.Errorf("%s: %v is in the day from %v to %v, want %v to %v", name, x, from, to, last, start)
				}
			}
			last = start
		}
	}
}

// TestMonths does the same for months.
func TestMonths(t *testing.T) {
	zone := in(t, "America/Sao_Paulo")
	last := dayStart(1970, 1, 1, zone)
	for m := time.Month(2); m < 720; m++ {
		start := dayStart(1970, m, 1, zone)
		if n := start.Sub(last); n < 27*24*time.Hour || n > 32*24*time.Hour {
			t.Errorf("%v is %v after %v", start, n, last)
		}
		for _, x := range []Time{TimeOf(last), TimeOf(start) - 1} {
			if from, to := month(x, zone); from != TimeOf(last) || to != TimeOf(start) {
				t.Errorf("%v is in the month from %v to %v, want %v to %v", x, from, to, last, start)
			}
		}
		last = start
	}
}

// TestMidnights checks days with a clock change at or near midnight.
func TestMidnights(t *testing.T) {
	for _, x := range []struct {
		zone, at, from string
		hours          float64
	}{
		{"America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z", 24},
		{"America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z", 23}, // midnight does not exist
		{"America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", 25},    // midnight occurs twice
		{"America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", 25},  // the clock is set back at 00:01
		{"Pacific/Apia", "2011-12-30T11:00:00Z", "2011-12-30T10:00:00Z", 24},      // December 30 does not exist
	} {
		from, to := day(instant(t, x.at), in(t, x.zone))
		if from != instant(t, x.from) || to.Time().Sub(from.Time()).Hours() != x.hours {
			t.Errorf("%s: %s is in the day from %v to %v", x.zone, x.at, from, to)
		}
	}
}

func in(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func instant(t *testing.T, s string) Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return TimeOf(at)
}
