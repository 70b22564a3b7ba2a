// Package logdriven runs a graph whose history is kept outside. An [Executor] makes the steps
// of one location from the records of a log, and saves and loads its state. A facade, see
// [Facade], has only the ports of a flow that runs elsewhere and is fed with what its steps
// gave. Start reading at [Executor].
package logdriven

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Stopped returns why the executor takes only records of what was read, or nil: an output
// has more elements that nobody has read than it may hold, or another location does not
// take what is sent to it.
func (l *Executor) Stopped() *engine.Blocked {
	for _, out := range l.loc.OutputsInOrder {
		if out.Full() {
			b, _ := out.Over()
			return &b
		}
	}
	return nil
}

// Full reports whether the executor takes only records of what was read; see
// [Executor.Stopped].
func (l *Executor) Full() bool { return l.Stopped() != nil }

// A log-driven graph has its history elsewhere: it has no goroutine and no clock of its
// own, and its inputs accept nothing. Its executor takes the steps, each with the
// records and the time that the history says, makes what came out durable, and
// releases it then. So the same history gives the same steps, on any machine.
type driver struct{ elsewhereRun }

// Drive makes an empty graph one whose steps are made by whoever has its [Executor].
//
// Answer makes the answer of an asynchronous call, of the operator with an index, part of the
// history. It returns when that is durable, or an error if the graph has ended before. It may
// be nil if no call is made.
func Drive(g *engine.Graph, c codec.Codec, answer func(codec.Record) error) {
	if answer == nil {
		answer = func(codec.Record) error { return errors.New("dataflow: nobody keeps the answers of this flow") }
	}
	g.Driver, g.Settings.Codec, g.Settings.Answer = &driver{}, c, answer
}

// KeepFailures has an asynchronous call that fails be a letter of the quarantine. Without it
// the flow ends.
func KeepFailures(g *engine.Graph) { g.Settings.Failed = true }

func (*driver) Now(*engine.Location) int64 {
	panic("millrace: internal error: a step of a history has no time: please report it")
}

// errNotKept is the error of a send past the history.
var errNotKept = errors.New("dataflow: this port is of the flow that one partition runs, and the history would not have what it takes: send to the ports that durable.Start returned")

// Admit refuses what comes from elsewhere than the history.
func (*driver) Admit(context.Context, *engine.InputBase) (engine.Admission, error) {
	return engine.Refused, errNotKept
}

// An Executor takes the steps of one location of a log-driven graph. It belongs to one goroutine.
type Executor struct {
	loc     *engine.Location
	sources sources
	calls   []engine.Calling // asynchronous operators
	numbers *Numbers
	of      func(op int32) codec.Codec // see Use
	part    []byte                     // what one output gives
	record  codec.Record               // that is accepted
	sender  sender                     // of the record before
	input   struct {                   // that the record before was for
		op     int32 // index
		accept func(*codec.Record, codec.Codec) (bool, error)
	}

	adopts  bool // the step that is made now keeps what adopted says
	adopted []byte

	quarantine quarantine
	own        []engine.State // what is saved besides the states of operators
	cuts       bool           // a [Cutter] has what changes noted
	apart      string         // see Apart
}

// NewExecutor returns the executor of location number i. The graph has been started.
func NewExecutor(g *engine.Graph, i int) *Executor {
	s := g.Locations[i]
	l := &Executor{loc: s, sources: newSources(mostSources)}
	l.own = []engine.State{l.sources.state(), &l.quarantine}
	for _, out := range s.OutputsInOrder {
		if c, ok := out.(engine.Calling); ok {
			l.calls = append(l.calls, c)
		}
	}
	l.identify()
	return l
}

// An Emission is what a step gave.
type Emission struct {
	Outputs []byte   // for [Feed], empty if nothing came out
	Refused []uint64 // nonces of records that were refused
	Skipped []Skip   // records that were quarantined, those that could not be read among them
	Parked  []Parked // of records that were quarantined, or wait behind one that was
	Gave    []Gave   // values of Outputs as the location keeps them; no part of the history
}

// A Gave has what a location keeps of the values that a step gave at an output, for [Feed] in the same process.
type Gave struct {
	number int32
	values []string
}

// Begin makes the step that runs what hangs on constants. The origin is what the wall clock shows
// when the time of the history is 0, in nanoseconds since 1970. It is part of the history: every
// executor that makes the steps again is given the same.
func (l *Executor) Begin(origin int64) (Emission, error) {
	return l.make(&engine.Plan{Now: 1, Start: true, Origin: origin})
}

// Step makes a step: timers that are due at now fire, records are pushed in order,
// slices are cut. Time is in nanoseconds since the history began, and never goes back.
//
// The records that skip names, in order of their index, are quarantined, and so are those
// that cannot be read. An error is that of a function of the program, whatever record it was
// called for, or [ErrQuarantineFull]: the executor can make no more steps.
func (l *Executor) Step(now int64, records [][]byte, skip []Skip) (Emission, error) {
	var e Emission
	if l.loc.Listens() && l.Full() { // senders may have been held up
		l.loc.HearAll(now)
		l.apart = "event time went on while an output was full"
	}
	l.sources.expire(now)
	for i, data := range records {
		var why *Skip
		ok, letter, nonce := true, uint64(0), uint64(0)
		if len(skip) > 0 && skip[0].Index == i {
			why, skip = &skip[0], skip[1:]
		} else {
			var err error
			ok, letter, nonce, err = l.accept(data, now)
			if errors.Is(err, ErrQuarantineFull) {
				return e, err
			}
			if err != nil {
				why = &Skip{Index: i, Reason: err.Error(), Park: true}
			}
		}
		if why != nil {
			var err error
			if letter, nonce, err = l.skip(data, now, *why); err != nil {
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
	made, err := l.make(&engine.Plan{Now: max(now, 1), Fire: true, Take: l.taken()})
	e.Outputs, e.Gave = made.Outputs, made.Gave
	return e, err
}

// taken has the inputs take what was accepted.
func (l *Executor) taken() []engine.Take {
	s := l.loc
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Take(nil)
}

// make makes the step of a plan, and steps with what is fed back by it until nothing is
// left. It returns what all of them gave.
func (l *Executor) make(p *engine.Plan) (e Emission, err error) {
	s := l.loc
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
		p = &engine.Plan{Now: p.Now, Take: l.taken()}
		more = len(p.Take) > 0
	}
	if l.adopts {
		e.Outputs, err = l.adopted, l.adopt()
		s.Ports, s.Later = s.Ports[:0], s.Later[:0]
		return e, err
	}
	for _, out := range s.Ports {
		if e.Outputs, err = l.give(e.Outputs, out.Operator(), out.Emit); err != nil {
			return e, err
		}
		if sharing, ok := out.(engine.Sharing); ok {
			if values := sharing.Gave(); len(values) > 0 {
				number, _ := l.numbers.Number(out.Operator().Index)
				e.Gave = append(e.Gave, Gave{number, values})
			}
		}
	}
	for _, out := range s.Later {
		if e.Outputs, err = l.give(e.Outputs, out.Operator(), out.Emit); err != nil {
			return e, err
		}
	}
	s.Ports, s.Later = s.Ports[:0], s.Later[:0]
	return e, nil
}

// Release makes the asynchronous calls that the last step asked for, once Resume was called. It
// is called when the step is durable.
func (l *Executor) Release() {
	for _, c := range l.calls {
		c.Begin()
	}
}

// Resume makes all asynchronous calls that have no answer. It is called once, when steps have
// taken the records that were there after the restore: the answer of a call may be among them.
func (l *Executor) Resume() {
	for _, c := range l.calls {
		c.Resume()
	}
}

// Deadline returns when the next timer is due.
func (l *Executor) Deadline() (now int64, ok bool) { return l.loc.Deadline() }

// Forgets reports whether an input forgets keys at now. Records of a step are accepted before its
// timers fire, so that such a key is put again in the step that comes after.
func (l *Executor) Forgets(now int64) bool { return l.loc.Forgets(now) }

// Apart says what has happened so far that is in no plan of a step, so that a graph which is
// not log-driven cannot make the same steps, or returns "".
func (l *Executor) Apart() string { return l.apart }

// Location returns the location whose steps the executor makes.
func (l *Executor) Location() *engine.Location { return l.loc }

// Use says by which numbers the history knows the operators, and with which codec the state and
// the records of the operator with an index are read; nil stands for that of the graph. It is
// called before anything else, and again behind what was kept in another form.
func (l *Executor) Use(n *Numbers, of func(op int32) codec.Codec) { l.numbers, l.of = n, of }

// codecOf returns the codec that the state and the records of the operator with an index are
// read with.
func (l *Executor) codecOf(op int32) codec.Codec {
	if l.of != nil {
		if c := l.of(op); c != nil {
			return c
		}
	}
	return l.loc.Graph.Settings.Codec
}

// edgeCount is the source under which the state says how many edges there ever were.
const edgeCount = codec.EdgeSource + "s"

// unsent returns what the location has for others.
func (l *Executor) unsent() (all []engine.Unsent) {
	if !l.loc.Graph.Kept() {
		return nil
	}
	for _, out := range l.loc.OutputsInOrder {
		if u, ok := out.(engine.Unsent); ok {
			all = append(all, u)
		}
	}
	return all
}

// Moved returns what is for other locations and was not returned before, of each edge in
// order. It is called when the steps that gave it are durable. After a restore it is all
// that is not known to be sent.
func (l *Executor) Moved() (all []engine.Moved) {
	for _, u := range l.unsent() {
		all = u.Moved(all)
	}
	for i := range all {
		all[i].Link, _ = l.numbers.Number(all[i].Link)
	}
	return all
}

// identify gives the edges numbers that none of the history had before: an edge that a
// changed program has for the first time must not be taken for another one, whose
// records the other location knows.
func (l *Executor) identify() {
	last := l.sources.last(edgeCount).Number
	for _, u := range l.unsent() {
		last = u.Identify(last)
	}
	if last > l.sources.last(edgeCount).Number {
		l.sources.set(edgeCount, codec.LastSeen{Number: last}, 0)
	}
}

// Outputs appends what the outputs of the location keep: what nobody has read or taken
// yet, and the values that are there now. It has the form of what a step gives.
func (l *Executor) Outputs(dst []byte) (_ []byte, err error) {
	for _, out := range l.loc.OutputsInOrder {
		if dst, err = l.give(dst, out.Operator(), out.Kept); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// give appends what an output gives, if that is something, with its number and length.
func (l *Executor) give(dst []byte, op *engine.Op, gives func([]byte, codec.Codec) ([]byte, error)) ([]byte, error) {
	part, err := gives(l.part[:0], l.loc.Graph.Settings.Codec)
	if l.part = part; cap(part) > largePart {
		l.part = nil
	}
	if err != nil || len(part) == 0 {
		return dst, err
	}
	number, _ := l.numbers.Number(op.Index)
	return codec.AppendBytes(binary.AppendUvarint(dst, uint64(number)), part), nil
}

// largePart is how many bytes are kept for what the next output gives.
const largePart = 256 << 10

// Lookup returns the encoded value that an output of entries, which has an index, has under an
// encoded key.
func (l *Executor) Lookup(op int32, key []byte) (value []byte, ok bool, err error) {
	out, err := l.loc.Output(op)
	if err != nil {
		return nil, false, err
	}
	return out.Lookup(key, l.loc.Graph.Settings.Codec)
}

// Status returns the status of the location. The owner of the executor calls it between
// steps.
func (l *Executor) Status() engine.Status {
	s := l.loc
	s.Mu.Lock()
	s.CopyFigures()
	st := engine.Status{Figures: s.Seen, Name: s.Name, Queue: s.Graph.Settings.Queue, Ended: s.Finished}
	s.Mu.Unlock()
	st.Blocked = l.Stopped()
	for _, out := range s.OutputsInOrder {
		st.Outputs = append(st.Outputs, out.Figures())
	}
	return st
}

// Report returns the public form of a status.
func (l *Executor) Report(st *engine.Status) any { return l.loc.Graph.Settings.Report(st) }
