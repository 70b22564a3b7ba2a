package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// An alarm is a timer that was set: when for, and with what duration.
type alarm struct{ after, at int64 }

// alarm notes a timer.
func (d *Simulation) alarm(s *engine.Location, after, at int64) {
	if all := d.alarms[s.Number]; !slices.Contains(all, alarm{after, at}) {
		d.alarms[s.Number] = append(all, alarm{after, at})
	}
}

// Now implements [engine.Driver]. Whoever reads the clock depends on all others who do, since
// time passes.
func (d *Simulation) Now(s *engine.Location) int64 {
	d.trail.touch(s.Times(), engine.Writes)
	if d.passes {
		d.passes = false
		d.pass(s)
	}
	return max(d.virtual, 1)
}

// pass lets time pass before a record that reads the time: a little, so that no two such
// records come at one time, or as much as makes a difference, which is what brings a
// timer that the record sets behind one that is set already. The durations that it
// reckons with are those of timers that were set before.
func (d *Simulation) pass(s *engine.Location) {
	d.virtual++
	first, ok := s.Deadline()
	if !ok {
		return
	}
	alarms := slices.DeleteFunc(d.alarms[s.Number], func(a alarm) bool { return a.at+a.after < d.virtual })
	d.alarms[s.Number] = alarms
	var times []int64
	for _, pending := range alarms {
		for _, other := range alarms {
			if t := pending.at - other.after + 1; pending.at >= first && t > d.virtual && t < first {
				times = append(times, t)
			}
		}
	}
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	times = slices.Compact(times)
	if i := d.choose.Choose(len(times) + 1); i > 0 {
		d.virtual = times[i-1]
		d.g.Note(func() string { return fmt.Sprintf("let time pass to %v", time.Duration(d.virtual)) })
	}
}
