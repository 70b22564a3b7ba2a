package durable

import "github.com/millrace/millrace/dataflow"

// manyEntries is how many entries an output holds when the first warning is logged.
var manyEntries = 1_000_000 // a variable for tests

// warnUntaken logs a warning for each output that holds many entries nobody has taken, again whenever their
// number has doubled. It is called for each snapshot, so that it costs steps nothing.
func (o *owner) warnUntaken() {
	st := o.leader.Status()
	outputs := o.leader.Report(&st).(dataflow.LocationStatus).Outputs
	way := o.gateway.partitions[o.partition]
	way.mu.Lock()
	defer way.mu.Unlock()
	for i := range outputs {
		out := &outputs[i]
		if out.Bound != 0 { // elements: a full output stops the location
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
