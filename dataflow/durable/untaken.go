package durable

import "github.com/millrace/millrace/dataflow"

// manyEntries is how many entries an output holds when the first warning is logged.
var manyEntries = 1_000_000 // a variable for tests

// warnUntaken logs a warning for each output that holds many entries nobody has taken, again whenever their
// number has doubled. It is called for each snapshot, so that it costs steps nothing.
func (o *owner) warnUntaken() {
	st := o.executor.Status()
	outputs := o.executor.Report(&st).(dataflow.LocationStatus).Outputs
	pg := o.gateway.partitions[o.partition]
	pg.mu.Lock()
	defer pg.mu.Unlock()
	for i := range outputs {
		out := &outputs[i]
		if out.Bound != 0 { // elements: a full output stops the location
			continue
		}
		at := max(pg.untaken[out.Port], manyEntries)
		if out.Unread < at {
			continue
		}
		for at <= out.Unread {
			at *= 2
		}
		if pg.untaken == nil {
			pg.untaken = make(map[string]int)
		}
		pg.untaken[out.Port] = at
		o.opts.Logger.Warn("an output keeps entries that nobody takes, for ever: Take them, or have them forgotten, with keyedsingleton.ForgetAfter before the output",
			"partition", o.partition, "output", out.Port, "at", out.Pos, "entries", out.Unread)
	}
}
