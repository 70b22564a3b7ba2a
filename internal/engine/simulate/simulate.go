// Package simulate runs a graph without goroutines and without a clock. A [Simulation] makes one elementary move at a time, as
// its [Chooser] decides, so that one goroutine can go through every possible schedule. A [Replay] repeats the steps of a
// recording. Start reading at [Simulation].
package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// A Chooser answers the questions of a simulation: which move is next, how far time passes, whether a record comes again. Nothing
// else in a simulation may depend on time, map order, goroutines or randomness.
type Chooser interface {
	// Choose returns a number in [0, n). It is asked only when n > 1.
	Choose(n int) int
}

// A Guide is a [Chooser] that sees the moves from which it chooses. It can make a simulation follow a recorded run.
type Guide interface {
	Chooser
	// Next returns the index of the next move. It is called whenever there is a move, even if there is only one. A negative index
	// ends the simulation.
	Next(all []Move) int
}

// A Listener is a [Chooser] that receives the effect of each move.
type Listener interface{ Made(e Effect) }

// A Witness is a [Chooser] that receives what the clients of [Simulation.Run] do at ports, as soon as it is done.
type Witness interface {
	Used(client int, u engine.Use)
}

// ErrQuiet is the error of a call that waits for something at a simulated graph that can make no further step.
var ErrQuiet = errors.New("dataflow: everything is quiet: what is waited for will never come")

// A Simulation runs a graph without goroutines and clock. What can happen next is one of several moves: a caller of a port
// continues, a record of one lane is taken, a slice is cut, an asynchronous call is made, or the timers of one deadline fire. The
// chooser decides which. So one goroutine can go through every possible schedule.
//
// Callers are the clients of [Simulation.Run], of which one runs at a time. Any other caller makes moves whenever it has to wait.
type Simulation struct {
	g                 *engine.Graph
	choose            Chooser
	guide             Guide       // choose, if it is one
	listener          Listener    // choose, if it is one
	witness           Witness     // choose, if it is one
	inspecting        *inspection // set while a function looks at ports between two moves
	clients           []*client
	running           *client // the client whose turn it is
	inline            bool    // callers do not wait for a turn
	over              bool
	footprint         footprint
	known             Known
	made              []Move             // memory of moves
	calling           [][]engine.Calling // by location
	steps             int                // since something was sent
	time              timeline
	mover             engine.Object     // whose clock the current move uses
	moverClock        *clock            // that clock, once it was needed
	repeats           repeats           // of taken records
	recording         *engine.Recording // the recording whose steps come first, or nil
	faults            faults
	bounds            bounds
	callsShareNothing bool             // functions of calls share nothing
	suspended         []*suspendedCall // calls that are at a point, in the order in which they began
	within            *suspendedCall   // the call whose function runs

	level        Level
	partialSteps []partialStep            // by location: the step under way
	firing       *partialStep             // the step whose timers are firing
	together     map[engine.Object]*joint // inputs from which a step may take several records
}

// maxSteps bounds the steps of a simulation between two sends, so that a flow that feeds itself without end stops with an error.
const maxSteps = 100_000

// idleFirings is how often an endless timer of a simulation fires while its location takes nothing: the timer has no end, and a
// schedule needs one.
const idleFirings = 3

// Drive makes an empty graph a simulated one. known is what other simulations of the graph have found out; see
// [Simulation.Missed].
func Drive(g *engine.Graph, choose Chooser, watch engine.Watcher, known Known) *Simulation {
	d := &Simulation{g: g, choose: choose, known: known, footprint: footprint{read: known.Read}, mover: engine.World}
	d.guide, _ = choose.(Guide)
	d.listener, _ = choose.(Listener)
	d.time.keeper, _ = choose.(Timekeeper)
	d.witness, _ = choose.(Witness)
	g.Driver, g.Settings.Watch, g.Settings.Steady, g.Settings.Turns = d, watch, true, d
	return d
}

// Missed returns what was not known before. As far as it concerns that, the recorded effects of earlier moves are unreliable.
func (d *Simulation) Missed() Known { return d.footprint.Missed }

// Clock returns how much time has passed.
func (d *Simulation) Clock() time.Duration { return time.Duration(d.time.latest) }

// Prepare implements [engine.Driver].
func (d *Simulation) Prepare(g *engine.Graph) {
	d.time.at, d.calling = make([]clocks, len(g.Locations)), make([][]engine.Calling, len(g.Locations))
	d.partialSteps, d.together = make([]partialStep, len(g.Locations)), make(map[engine.Object]*joint)
	d.bounds.stopped, d.time.oneWay = make([]bool, len(g.Locations)), make(map[*engine.Op]bool)
	for i, s := range g.Locations {
		d.time.at[i] = clocks{several: d.level == Types && s.TimedByKey(), of: make(map[engine.Object]int)}
		if d.level == Engine {
			d.partialStep(s).gathers = s.Gathers() || d.bounds.outputs // what fills an output, and what else is in its step
		} else {
			d.joins(s)
			if d.recording == nil {
				s.SettleLoose()
			}
		}
		for i := range s.Timers {
			if t, ok := s.Timers[i].TimerQueue.(engine.EndlessTimer); ok {
				at := &d.time.at[s.Number]
				at.ticks = true
				t.Tire(idleFirings, func() int { return at.taken })
			}
		}
		for _, out := range s.OutputsInOrder {
			switch x := out.(type) {
			case engine.Calling:
				d.calling[s.Number] = append(d.calling[s.Number], x)
			case engine.Delivery:
				if l := x.Exchange(); l != nil && !l.Within {
					d.time.oneWay[x.Operator()] = true
				}
			}
		}
	}
	d.repeats.find(g)
	d.findFaults(g)
}

// Start makes the first step, with a clock that begins in 1970. The maker of steps holds the token forever.
func (d *Simulation) Start(s *engine.Location) {
	if d.recording != nil {
		if s.Number == len(d.g.Locations)-1 {
			d.begin()
		}
		return
	}
	d.first(s)
}

// Perform implements [engine.Driver].
func (d *Simulation) Perform(s *engine.Location, p *engine.Plan) (ok bool) {
	if ok = s.Step(p); ok && d.firing == nil {
		s.Publish()
	}
	return ok
}

// Settle implements [engine.Driver].
func (d *Simulation) Settle(s *engine.Location, _ int) bool {
	s.Mu.Unlock()
	return true
}

// HandOver implements [engine.Driver].
func (d *Simulation) HandOver(s *engine.Location) { s.Mu.Unlock() }

// Admit implements [engine.Driver].
func (d *Simulation) Admit(ctx context.Context, in *engine.InputBase) (engine.Admission, error) {
	if err := in.Refuse(); err != nil {
		return engine.Refused, err
	}
	if err := d.waitForSpace(in); err != nil {
		return engine.Refused, err
	}
	d.steps = 0
	return in.AwaitSpace(ctx)
}

// waitForSpace makes a caller wait while the location's queue is full. It is called with the location's mu held.
func (d *Simulation) waitForSpace(in *engine.InputBase) error {
	s := in.Loc
	for s.Full() && in.Refuse() == nil {
		if o := s.Capacity(); !d.footprint.read[o] {
			d.footprint.Missed.See(o)
		}
		d.footprint.touch(s.Capacity(), engine.Writes)
		s.Mu.Unlock()
		err := d.Turn(engine.Turn{Action: "wait for room at", Op: in.Op, Ready: func() bool { return !s.Full() || in.Refuse() != nil }})
		if err != nil {
			err = s.WaitError(err)
		}
		s.Mu.Lock()
		if err != nil {
			return err
		}
		d.footprint.touch(s.Capacity(), engine.Writes)
	}
	return nil
}

// Deliver queues calls, each of which is made by a move of its own.
func (d *Simulation) Deliver(x engine.Delivery) {
	if calls, ok := x.(engine.Calling); ok {
		calls.Ask()
		return
	}
	if l := x.Exchange(); l != nil && d.faults.hasHalted(l.To) {
		x.Discard()
		return
	}
	x.Deliver()
}

// Retire implements [engine.Driver].
func (d *Simulation) Retire(*engine.Location) {}

// Arm implements [engine.Driver].
func (d *Simulation) Arm(*engine.Location) {}

// Ask implements [engine.Driver].
func (d *Simulation) Ask(s *engine.Location) <-chan struct{} { return s.AskBetweenSteps() }

// Step makes one move that is not a client's, and reports whether there was one.
func (d *Simulation) Step() bool {
	if d.over || d.g.Err() != nil {
		return false
	}
	clients := d.clients
	d.clients = nil
	all := d.moves()
	d.clients = clients
	if len(all) == 0 {
		return d.settle()
	}
	return d.next(all)
}

// Offers returns what can happen next, to be passed to [Simulation.Make]. The result is valid until then.
func (d *Simulation) Offers() []Move { return d.moves() }

// Make makes a move. With it, a caller that makes a simulation follow a run needs no chooser for that.
func (d *Simulation) Make(m Move) error {
	d.do(&m)
	return d.g.Err()
}

// next makes one of some moves. It reports false if the chooser has ended the simulation.
func (d *Simulation) next(all []Move) bool {
	i := 0
	switch {
	case d.guide != nil:
		i = d.guide.Next(all)
	case len(all) > 1:
		i = d.choose.Choose(len(all))
	}
	if i < 0 {
		d.over = true
		return false
	}
	m := all[i]
	d.do(&m)
	return true
}

// Run runs clients and everything that follows from what they do, until nothing more can happen or the simulation is ended. When
// nothing else can happen, a client that waits for something that will never come gets [ErrQuiet], or the error of the graph if
// that has failed.
func (d *Simulation) Run(clients ...func()) {
	for i, f := range clients {
		d.clients = append(d.clients, d.newClient(i, f))
	}
	defer func() {
		d.stopCalls()
		for _, c := range d.clients {
			c.stop()
		}
		d.clients = nil
	}()
	for !d.over {
		all := d.moves()
		switch {
		case len(all) > 0:
			d.next(all)
		case d.settle():
		case !d.wake():
			return
		}
	}
}

// End ends the simulation: no further move is made.
func (d *Simulation) End() { d.over = true }

// settle makes a location at which nothing can happen end, or accept an ending, and reports whether there was one.
func (d *Simulation) settle() bool {
	if !d.g.Begun() || d.g.Err() != nil {
		return false
	}
	d.footprint.begin(Name{Kind: Settle})
	settled := settleAny(d.g)
	d.footprint.effect.All = true
	if e, outer := d.footprint.end(); outer && settled && d.listener != nil {
		d.listener.Made(e)
	}
	return settled
}

// settleAny makes a location that can make no further step end, or accept an ending, and reports whether there was one.
func settleAny(g *engine.Graph) bool {
	for _, s := range g.Locations {
		s.Mu.Lock()
		was, queued := s.Finished, s.Queued
		if s.Stalled.Load() == 0 {
			s.Quiet()
		}
		is, more := s.Finished, s.Queued > queued
		s.Mu.Unlock()
		if is && !was || more {
			return true
		}
	}
	return false
}

// wake lets the first waiting client learn that what it waits for will never come.
func (d *Simulation) wake() bool {
	for _, c := range d.clients {
		if !c.done {
			d.do(&Move{Name: Name{Kind: Acts, Op: int32(c.number)}, client: c, quiet: true})
			return true
		}
	}
	return false
}
