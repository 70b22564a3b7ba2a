// Package logdriven runs a graph whose history is kept outside. An [Executor] makes the steps of one location from the records of
// a log, and saves and loads its state. A facade, see [Facade], has only the ports of a flow that runs elsewhere, and is fed with
// what the steps of that flow gave. Start reading at [Executor].
package logdriven

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Stopped returns why the executor takes only records that acknowledge reads, or nil. It is stopped if an output holds more
// unread elements than allowed, or if another location does not take what is sent to it.
func (ex *Executor) Stopped() *engine.Blocked {
	for _, out := range ex.loc.OutputsInOrder {
		if out.Full() {
			b, _ := out.Over()
			return &b
		}
	}
	return nil
}

// Full reports whether the executor takes only records that acknowledge reads; see [Executor.Stopped].
func (ex *Executor) Full() bool { return ex.Stopped() != nil }

// A driver drives a log-driven graph, whose history is kept elsewhere. The graph has no goroutine and no clock of its own, and
// its inputs accept nothing. Its executor makes the steps, each with the records and the time that the history gives, makes the
// results durable, and only then releases them. So the same history gives the same steps on any machine.
type driver struct{ elsewhereRun }

// Drive makes an empty graph one whose steps are made by the owner of its [Executor].
//
// answer makes the answer of an asynchronous call part of the history; the record contains the operator's index. It returns when
// the answer is durable, or an error if the graph has ended before that. It may be nil if no call is made.
func Drive(g *engine.Graph, c codec.Codec, answer func(codec.Record) error) {
	if answer == nil {
		answer = func(codec.Record) error { return errors.New("dataflow: nobody keeps the answers of this flow") }
	}
	g.Driver, g.Settings.Codec, g.Settings.Answer = &driver{}, c, answer
}

// KeepFailures makes a failed asynchronous call a letter of the quarantine. Without it, the failure ends the flow.
func KeepFailures(g *engine.Graph) { g.Settings.Failed = true }

func (*driver) Now(*engine.Location) int64 {
	panic("millrace: internal error: a step of a history has no time: please report it")
}

// errNotKept is the error of a send that would bypass the history.
var errNotKept = errors.New("dataflow: this port is of the flow that one partition runs, and the history would not have what it takes: send to the ports that durable.Start returned")

// Admit refuses everything that does not come from the history.
func (*driver) Admit(context.Context, *engine.InputBase) (engine.Admission, error) {
	return engine.Refused, errNotKept
}

// An Executor makes the steps of one location of a log-driven graph. It is used by one goroutine.
type Executor struct {
	loc     *engine.Location
	sources sources
	calls   []engine.Calling // asynchronous operators
	numbers *Numbers
	of      func(op int32) codec.Codec // see Use
	part    []byte                     // the results of one output
	record  codec.Record               // being accepted
	sender  sender                     // of the previous record
	input   struct {                   // for the previous record
		op     int32 // index
		accept func(*codec.Record, codec.Codec) (bool, error)
	}

	adopts  bool // the current step keeps adopted instead of its own results
	adopted []byte

	quarantine quarantine
	own        []engine.State // saved besides the states of operators
	cuts       bool           // a [Cutter] records changes
	unplanned  string         // see Apart
}

// NewExecutor returns the executor of location number i. The graph has been started.
func NewExecutor(g *engine.Graph, i int) *Executor {
	s := g.Locations[i]
	ex := &Executor{loc: s, sources: newSources(mostSources)}
	ex.own = []engine.State{ex.sources.state(), &ex.quarantine}
	for _, out := range s.OutputsInOrder {
		if c, ok := out.(engine.Calling); ok {
			ex.calls = append(ex.calls, c)
		}
	}
	ex.identify()
	return ex
}

// An Emission is the result of a step.
type Emission struct {
	Outputs []byte   // for [Feed]; empty if nothing came out
	Refused []uint64 // nonces of records that were refused
	Skipped []Skip   // records that were quarantined, including those that could not be read
	Parked  []Parked // records that were quarantined, or wait behind such a record
	Gave    []Gave   // values of Outputs as the location keeps them; not part of the history
}

// A Gave holds the values that a step gave at an output, as the location keeps them, for [Feed] in the same process.
type Gave struct {
	number int32
	values []string
}

// Begin makes the step that runs what depends on constants. origin is what the wall clock shows at time 0 of the history, in
// nanoseconds since 1970. It is part of the history: every executor that repeats the steps gets the same origin.
func (ex *Executor) Begin(origin int64) (Emission, error) {
	return ex.make(&engine.Plan{Now: 1, Start: true, Origin: origin})
}

// Step makes a step: records are accepted, timers that are due at now fire, records are pushed in order, slices are cut. Time is
// in nanoseconds since the history began, and never goes back.
//
// The records that skip lists, in order of their index, are quarantined, and so are those that cannot be read. An error comes
// from a function of the program, whatever record it was called for, or is [ErrQuarantineFull]; after an error the executor can
// make no more steps.
func (ex *Executor) Step(now int64, records [][]byte, skip []Skip) (Emission, error) {
	var e Emission
	if ex.loc.Listens() && ex.Full() { // senders may have been held up
		ex.loc.HearAll(now)
		ex.unplanned = "event time went on while an output was full"
	}
	ex.sources.expire(now)
	for i, data := range records {
		var why *Skip
		ok, letter, nonce := true, uint64(0), uint64(0)
		if len(skip) > 0 && skip[0].Index == i {
			why, skip = &skip[0], skip[1:]
		} else {
			var err error
			ok, letter, nonce, err = ex.accept(data, now)
			if errors.Is(err, ErrQuarantineFull) {
				return e, err
			}
			if err != nil {
				why = &Skip{Index: i, Reason: err.Error(), Park: true}
			}
		}
		if why != nil {
			var err error
			if letter, nonce, err = ex.skip(data, now, *why); err != nil {
				return e, err
			}
			e.Skipped = append(e.Skipped, *why)
		}
		switch {
		case nonce == 0:
		case letter != 0:
			e.Parked = append(e.Parked, Parked{nonce, letter})
		case !ok:
			e.Refused = append(e.Refused, nonce)
		}
	}
	made, err := ex.make(&engine.Plan{Now: max(now, 1), Fire: true, Take: ex.taken()})
	e.Outputs, e.Gave = made.Outputs, made.Gave
	return e, err
}

// taken makes the inputs take what was accepted.
func (ex *Executor) taken() []engine.Take {
	s := ex.loc
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Take(nil)
}

// make makes the step of a plan, and further steps for what is fed back until nothing is left. It returns the results of all of
// them.
func (ex *Executor) make(p *engine.Plan) (e Emission, err error) {
	s := ex.loc
	for more := true; more; {
		if s.Recorder != nil {
			s.Recorder.Taken(s, p)
		}
		if !s.Step(p) {
			return e, s.Graph.Err()
		}
		if s.Recorder != nil {
			s.Recorder.Made(s)
		}
		s.Later = slices.DeleteFunc(s.Later, func(x engine.Delivery) bool {
			if x.Loops() {
				x.Deliver()
			}
			return x.Loops()
		})
		p = &engine.Plan{Now: p.Now, Take: ex.taken()}
		more = len(p.Take) > 0
	}
	if ex.adopts {
		e.Outputs, err = ex.adopted, ex.adopt()
		s.Ports, s.Later = s.Ports[:0], s.Later[:0]
		return e, err
	}
	for _, out := range s.Ports {
		if e.Outputs, err = ex.give(e.Outputs, out.Operator(), out.Emit); err != nil {
			return e, s.EmitFailed(out, err)
		}
		if sharing, ok := out.(engine.Sharing); ok {
			if values := sharing.Gave(); len(values) > 0 {
				number, _ := ex.numbers.Number(out.Operator().Index)
				e.Gave = append(e.Gave, Gave{number, values})
			}
		}
	}
	for _, out := range s.Later {
		if e.Outputs, err = ex.give(e.Outputs, out.Operator(), out.Emit); err != nil {
			return e, s.EmitFailed(out, err)
		}
	}
	s.Ports, s.Later = s.Ports[:0], s.Later[:0]
	return e, nil
}

// Release starts the asynchronous calls that the last step requested, once Resume was called. It is called when the step is
// durable.
func (ex *Executor) Release() {
	for _, c := range ex.calls {
		c.Begin()
	}
}

// Resume starts all asynchronous calls that have no answer. It is called once, after steps have taken the records that existed at
// the restore, because the answer of a call may be among them. A call whose answer is quarantined has one: a new answer would
// probably be quarantined as well, and the restore that follows would make the call again, without end.
func (ex *Executor) Resume() {
	answered := ex.quarantine.answered()
	for _, c := range ex.calls {
		var held func(key []byte) bool
		if number, ok := ex.numbers.Number(c.Operator().Index); ok && len(answered) > 0 {
			held = func(key []byte) bool { return answered[parkingKey(number, key)] }
		}
		c.Resume(held)
	}
}

// Deadline returns when the next timer is due.
func (ex *Executor) Deadline() (now int64, ok bool) { return ex.loc.Deadline() }

// Forgets reports whether an input forgets keys at now. The records of a step are accepted before its timers fire, so a put of
// such a key has to come in a later step.
func (ex *Executor) Forgets(now int64) bool { return ex.loc.Forgets(now) }

// Unplanned describes what has happened so far that is in no plan of a step, so that a graph that is not log-driven cannot make the
// same steps. It returns "" if there is nothing.
func (ex *Executor) Unplanned() string { return ex.unplanned }

// Location returns the location whose steps the executor makes.
func (ex *Executor) Location() *engine.Location { return ex.loc }

// Use sets the numbers by which the history identifies operators, and a function that returns the codec for reading the state and
// the records of an operator, by its index; nil means the graph's codec. It is called before anything else, and again after data
// in another form was read.
func (ex *Executor) Use(n *Numbers, of func(op int32) codec.Codec) { ex.numbers, ex.of = n, of }

// codecOf returns the codec for reading the state and the records of the operator with index op.
func (ex *Executor) codecOf(op int32) codec.Codec {
	if ex.of != nil {
		if c := ex.of(op); c != nil {
			return c
		}
	}
	return ex.loc.Graph.Settings.Codec
}

// edgeCount is the source under which the state stores how many edges there ever were.
const edgeCount = codec.EdgeSource + "s"

// unsent returns the deliveries to other locations.
func (ex *Executor) unsent() (all []engine.Unsent) {
	if !ex.loc.Graph.Kept() {
		return nil
	}
	for _, out := range ex.loc.OutputsInOrder {
		if u, ok := out.(engine.Unsent); ok {
			all = append(all, u)
		}
	}
	return all
}

// Moved returns what is for other locations and was not returned before, in order for each edge. It is called when the steps that
// gave it are durable. After a restore it returns everything that is not known to be sent.
func (ex *Executor) Moved() (all []engine.Moved) {
	for _, u := range ex.unsent() {
		all = u.Moved(all)
	}
	for i := range all {
		all[i].Link, _ = ex.numbers.Number(all[i].Link)
	}
	return all
}

// identify gives the edges numbers that the history has never used: a new edge of a changed program must not be confused with
// another one, whose records the other location knows.
func (ex *Executor) identify() {
	last := ex.sources.last(edgeCount).Number
	for _, u := range ex.unsent() {
		last = u.Identify(last)
	}
	if last > ex.sources.last(edgeCount).Number {
		ex.sources.set(edgeCount, codec.LastSeen{Number: last}, 0)
	}
}

// Outputs appends what the outputs of the location keep: everything not yet read or taken, and the current values. The format is
// that of the results of a step.
func (ex *Executor) Outputs(dst []byte) (_ []byte, err error) {
	for _, out := range ex.loc.OutputsInOrder {
		if dst, err = ex.give(dst, out.Operator(), out.Kept); err != nil {
			return dst, fmt.Errorf("%s: %w", out.Operator(), err)
		}
	}
	return dst, nil
}

// give appends the results of an output, if there are any, with its number and their length.
func (ex *Executor) give(dst []byte, op *engine.Op, gives func([]byte, codec.Codec) ([]byte, error)) ([]byte, error) {
	part, err := gives(ex.part[:0], ex.loc.Graph.Settings.Codec)
	if ex.part = part; cap(part) > largePart {
		ex.part = nil
	}
	if err != nil || len(part) == 0 {
		return dst, err
	}
	number, _ := ex.numbers.Number(op.Index)
	return codec.AppendBytes(binary.AppendUvarint(dst, uint64(number)), part), nil
}

// largePart is the largest buffer that is kept for the results of the next output.
const largePart = 256 << 10

// Lookup returns the encoded value of an encoded key in the output of entries with index op.
func (ex *Executor) Lookup(op int32, key []byte) (value []byte, ok bool, err error) {
	out, err := ex.loc.Output(op)
	if err != nil {
		return nil, false, err
	}
	return out.Lookup(key, ex.loc.Graph.Settings.Codec)
}

// Status returns the status of the location. The owner of the executor calls it between
// steps.
func (ex *Executor) Status() engine.Status {
	s := ex.loc
	s.Mu.Lock()
	s.CopyFigures()
	st := engine.Status{Figures: s.Seen, Name: s.Name, Queue: s.Graph.Settings.Queue, Ended: s.Finished}
	s.Mu.Unlock()
	st.Blocked = ex.Stopped()
	for _, out := range s.OutputsInOrder {
		st.Outputs = append(st.Outputs, out.Figures())
	}
	return st
}

// Report returns the public form of a status.
func (ex *Executor) Report(st *engine.Status) any { return ex.loc.Graph.Settings.Report(st) }
