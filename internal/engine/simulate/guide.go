package simulate

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// A Guide is a [Chooser] that is told what it chooses from when a record is taken, or the
// timers of a deadline are fired. It can lead a simulation along a run that was recorded.
type Guide interface {
	Chooser
	// Next returns the number of the alternative that happens next. It is asked whenever
	// there is one, also if there is no other.
	Next(all []Offer) int
}

// An Offer is a record that can be taken next, or the earliest deadline.
type Offer struct {
	In    *engine.Op // the input of the record, or nil
	Value string     // the record as text, with its key if it has one
	Due   int64
}

// String returns the offer as failures print it.
func (o Offer) String() string {
	if o.In == nil {
		return fmt.Sprintf("fire what is due at %v", time.Duration(o.Due))
	}
	return fmt.Sprintf("take %s of %s", o.Value, o.In)
}

// next chooses a lane.
func (d *Simulation) next(lanes []lane) lane {
	if d.guide != nil {
		all := make([]Offer, len(lanes))
		for i, l := range lanes {
			if l.in == nil {
				all[i].Due = l.deadline
				continue
			}
			all[i] = Offer{In: l.in.Base().Op, Value: l.in.Say(l.head)}
		}
		return lanes[d.guide.Next(all)]
	}
	if len(lanes) == 1 {
		return lanes[0]
	}
	return lanes[d.choose.Choose(len(lanes))]
}
