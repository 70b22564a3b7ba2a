package durable

import "github.com/millrace/millrace/dataflow"

// manyEntries is how many entries an output holds when the logger hears of it first.
var manyEntries = 1_000_000 // a variable for tests

// warnUntaken has the logger hear of outputs that hold many entries which nobody has taken: once, and
// again whenever they are twice as many. It is called with each snapshot, so steps do not count.
func (o *owner) warnUntaken() {
	st := o.leader.Status()
	outputs := o.leader.Report(&st).(dataflow.LocationStatus).Outputs
	way := o.door.partitions[o.partition]
	way.mu.Lock()
	defer way.mu.Unlock()
	for i := range outputs {
		out := &outputs[i]
		if out.Bound != 0 { // elements, which stop the location
			continue
		}
		at := max(way.untaken[out.Port], manyEntries)
		if out.Unread < at {
			continue
		}
		for at <= out.Unread {
			at *= 2
		}
		if way.untaken == nil {
			way.untaken = make(map[string]int)
		}
		way.untaken[out.Port] = at
		o.opts.Logger.Warn("an output keeps entries that nobody takes, for ever: Take them, or have them forgotten, with keyedsingleton.ForgetAfter before the output",
			"partition", o.partition, "output", out.Port, "at", out.Pos, "entries", out.Unread)
	}
}
