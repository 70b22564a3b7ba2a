package figures

import "strconv"

// A Kind says how a figure changes.
type Kind int

const (
	// Counter is a figure that grows and never goes back.
	Counter Kind = iota
	// Amount is a figure that goes up and down, and whose sum over locations or processes is meaningful.
	Amount
	// Level is a figure whose sum is meaningless, such as a duration or a yes.
	Level
)

// A Family is a metric.
type Family struct {
	Name   string // in OpenTelemetry, below millrace: "operator.records"
	Unit   string // of UCUM: "s", "By", or an annotation such as "{record}"
	Kind   Kind
	Help   string
	Labels []string // besides the flow

	of func(t *taken, give give)
}

// A give receives a figure, and the values of the labels of its family.
type give func(value float64, labels ...string)

// Labels that a figure may have besides the flow.
var (
	ofFlow      []string
	ofLocation  = []string{"location"}
	ofSlice     = []string{"location", "slice"}
	ofOperator  = []string{"location", "operator", "port"}
	ofPartition = []string{"location", "partition"}
)

// families are all metrics. Their order is that of [Families].
var families = []Family{
	{"flow.running", "{flow}", Level, "1 while the flow runs, 0 when it has ended.", ofFlow, func(t *taken, give give) { give(one(!t.Ended)) }},
	{"flow.failed", "{flow}", Level, "1 if the flow has ended with an error.", ofFlow, func(t *taken, give give) { give(one(t.Error != "")) }},

	{"location.running", "{location}", Level, "1 while the location runs, 0 when it, or one of its partitions here, is stopped or has ended.", ofLocation, (*taken).running},
	{"location.stopped", "s", Level, "How long the location, or one of its partitions here, has been stopped; 0 while all run.", ofLocation, (*taken).stopped},
	{"steps", "{step}", Counter, "Steps that were made.", ofLocation, location(func(l *at) float64 { return float64(l.Steps) })},
	{"records", "{record}", Counter, "Records that steps took: sent, from other locations, fed back, or answers.", ofLocation, location(func(l *at) float64 { return float64(l.Records) })},
	{"queue.records", "{record}", Amount, "Records that were accepted and wait for a step.", ofLocation, location(func(l *at) float64 { return float64(l.Queued) })},
	{"queue.limit.records", "{record}", Amount, "Records that may wait for a step before inputs block.", ofLocation, location(func(l *at) float64 { return float64(l.Bound) })},
	{"queue.senders", "{sender}", Amount, "Callers of inputs that wait for room.", ofLocation, location(func(l *at) float64 { return float64(l.Senders) })},
	{"scrape.stale", "s", Level, "How old the figures of the location are because it is in a long step; 0 if they are new.", ofLocation, (*taken).stale},

	{"slice.runs", "{run}", Counter, "Runs of the slice.", ofSlice, (*taken).slices},

	{"operator.records", "{record}", Counter, "Elements, entries or changes that came to the operator, and for an input came from it. Only where dataflow.Options.Count is set.", ofOperator, (*taken).entered},
	{"operator.keys", "{key}", Amount, "Keys that the operator remembers, or elements where it has no keys.", ofOperator, keeping(func(o *op) float64 { return float64(o.Kept) })},
	{"operator.state", "By", Amount, "Memory of what the operator remembers, without what that points to.", ofOperator, keeping(func(o *op) float64 { return float64(o.Bytes) })},
	{"operator.calls.running", "{call}", Amount, "Asynchronous calls of the operator that run.", ofOperator, keeping(func(o *op) float64 { return float64(o.Calls) })},
	{"operator.calls.waiting", "{call}", Amount, "Asynchronous calls of the operator that wait for others to return.", ofOperator, keeping(func(o *op) float64 { return float64(o.Waiting) })},
	{"operator.answers.dropped", "{answer}", Counter, "Answers of calls that were dropped because their key was forgotten before they came.", ofOperator, keeping(func(o *op) float64 { return float64(o.Dropped) })},
	{"operator.timers", "{timer}", Amount, "Timers of the operator that are set.", ofOperator, keeping(func(o *op) float64 { return float64(o.Timers) })},

	{"output.records", "{record}", Counter, "Elements, entries or versions of a value that the output was given.", ofOperator, output(func(o *out) (float64, bool) { return float64(o.Given), true })},
	{"output.waiting.records", "{record}", Amount, "Elements that nobody has read, or entries that nobody has taken.", ofOperator, output(func(o *out) (float64, bool) { return float64(o.Unread), true })},
	{"output.limit.records", "{record}", Amount, "Unread elements with which the location still runs. Only of outputs that stop it.", ofOperator, output(func(o *out) (float64, bool) { return float64(o.Bound), o.Bound > 0 })},

	{"partition.running", "{partition}", Level, "1 if this process runs the partition.", ofPartition, partition(func(p *part) float64 { return one(p.State == runs) })},
	{"partition.lag.records", "{record}", Amount, "Records that are durable and that no step has taken.", ofPartition, partition(func(p *part) float64 { return float64(p.LagRecords) })},
	{"partition.lag.size", "By", Amount, "Bytes of the records that are durable and that no step has taken.", ofPartition, partition(func(p *part) float64 { return float64(p.LagBytes) })},
	{"partition.quarantined", "{record}", Amount, "Records in the quarantine.", ofPartition, partition(func(p *part) float64 { return float64(p.Quarantined) })},
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// location returns a figure of each location.
func location(of func(l *at) float64) func(*taken, give) {
	return func(t *taken, give give) {
		for i := range t.Locations {
			give(of(&t.Locations[i]), t.locations[i])
		}
	}
}

func (t *taken) running(give give) {
	for i, l := range t.Locations {
		give(one(!l.Stopped && !l.Ended), t.locations[i])
	}
}

func (t *taken) stopped(give give) {
	for i, l := range t.Locations {
		longest := 0.0
		for _, s := range t.Stopped {
			if s.Location == l.Name && !s.Since.IsZero() {
				longest = max(longest, t.At.Sub(s.Since).Seconds())
			}
		}
		give(longest, t.locations[i])
	}
}

// stale gives the age of figures that are not new. Figures that were never
// copied are as old as the source.
func (t *taken) stale(give give) {
	for i, l := range t.Locations {
		age := 0.0
		if l.Stale {
			since := l.Time
			if since.IsZero() {
				since = t.began
			}
			age = max(0, t.At.Sub(since).Seconds())
		}
		give(age, t.locations[i])
	}
}

func (t *taken) slices(give give) {
	for i, c := range t.cuts {
		runs := 0.0
		for _, s := range t.Slices {
			if s.Location == t.Locations[c.location].Name && s.Pos == c.pos {
				runs = float64(s.Runs)
			}
		}
		give(runs, t.locations[c.location], strconv.Itoa(t.cuts[i].number))
	}
}

func (t *taken) entered(give give) {
	if !t.Counted {
		return
	}
	for _, i := range t.shown {
		give(float64(t.Operators[i].Entered), t.operators[i]...)
	}
}

// keeping returns a figure of each operator that remembers something from one step to the next.
func keeping(of func(o *op) float64) func(*taken, give) {
	return func(t *taken, give give) {
		for _, i := range t.shown {
			if t.graph.Operators[i].Keeps {
				give(of(&t.Operators[i]), t.operators[i]...)
			}
		}
	}
}

// output returns a figure of each output for which it is known.
func output(of func(o *out) (value float64, known bool)) func(*taken, give) {
	return func(t *taken, give give) {
		for i := range t.Outputs {
			if value, known := of(&t.Outputs[i]); known {
				give(value, t.operators[t.Outputs[i].Operator]...)
			}
		}
	}
}

// partition returns a figure of each partition of a durable flow.
func partition(of func(p *part) float64) func(*taken, give) {
	return func(t *taken, give give) {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			give(of(p), valid(p.Location), strconv.Itoa(p.Number))
		}
	}
}
