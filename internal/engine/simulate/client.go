package simulate

import (
	"context"
	"errors"
	"iter"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/token"
)

// A client is a caller of the ports of a simulated graph. It runs until it is about to use a port, and continues when that is the
// next move.
type client struct {
	number  int
	resume  func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	turn    engine.Turn
	started bool
	done    bool
	quiet   bool // what it waits for will never come
	ackLost bool // it will not learn that its record was accepted
}

// errEnded unwinds a client, or the function of a call, of a simulation that has ended.
var errEnded = engine.ErrUnwound

func (d *Simulation) newClient(number int, f func()) *client {
	c := &client{number: number}
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer func() {
			if p := recover(); p != nil && p != any(errEnded) {
				panic(p)
			}
		}()
		f()
	})
	return c
}

// ready reports whether the client can continue.
func (c *client) ready() bool {
	return !c.done && (!c.started || c.turn.Ready == nil || c.turn.Ready())
}

// act lets a client continue.
func (d *Simulation) act(m *Move) {
	c := m.client
	if t := c.turn; m.quiet {
		c.quiet, d.footprint.effect.All = true, true
	} else if t.Op != nil && t.Ready == nil && t.Action != "send to" {
		d.g.Note(m.String)
	}
	before := d.running
	c.started, d.running = true, c
	_, more := c.resume()
	d.running, c.done = before, !more
	if t := c.turn; more && t.Wants != 0 && t.Ready != nil && !t.Ready() {
		d.footprint.effect.Wants = append(d.footprint.effect.Wants, Touch{t.Waits, t.Wants})
	}
}

// Turn implements [engine.Turns]. A caller that is not a client of [Simulation.Run] makes moves until it can continue.
func (d *Simulation) Turn(t engine.Turn) error {
	switch c := d.running; {
	case d.inspecting != nil:
		return d.inspecting.turn(t)
	case d.inline:
		if t.Ready != nil && !t.Ready() {
			return ErrQuiet
		}
	case c == nil:
		for t.Ready != nil && !t.Ready() {
			if d.Step() {
				continue
			}
			if err := d.g.Err(); err != nil {
				return err
			}
			if !t.Ready() {
				return ErrQuiet
			}
		}
	default:
		c.turn, c.quiet = t, false
		if !c.yield(struct{}{}) {
			panic(errEnded)
		}
		if t.Op != nil {
			d.uses(t.Op.Loc)
			if err := d.loseAck(c, t); err != nil {
				return err
			}
		}
		if c.quiet && (t.Ready == nil || !t.Ready()) {
			if err := d.g.Err(); err != nil {
				return err
			}
			return ErrQuiet
		}
	}
	return nil
}

// Wait implements [engine.Driver].
func (d *Simulation) Wait(_ context.Context, _ *engine.Location, w *token.Waiter) error {
	if d.running == nil && !d.inline {
		if d.Step() {
			return nil
		}
		if err := d.g.Err(); err != nil {
			return err
		}
		return ErrQuiet
	}
	err := d.Turn(engine.Turn{Action: "wait", Ready: func() bool { return len(w.Wake) > 0 || d.g.Err() != nil }})
	if err != nil {
		return err
	}
	select {
	case <-w.Wake:
	default:
	}
	return d.g.Err()
}

// Quiesce makes moves until there are none left. A client waits for that instead.
func (d *Simulation) Quiesce() error {
	if d.running == nil {
		for d.Step() {
		}
		return d.g.Err()
	}
	if err := d.Turn(engine.Turn{Action: "rest", Ready: func() bool { return false }}); !errors.Is(err, ErrQuiet) {
		return err
	}
	return d.g.Err()
}

// Inline calls f, which uses ports without waiting for a turn. It is for a time when nothing more can happen.
func (d *Simulation) Inline(f func()) {
	before := d.inline
	d.inline = true
	defer func() { d.inline = before }()
	f()
}

// Ended implements [engine.Driver]. It returns ErrQuiet if the graph cannot end because an input is open.
func (d *Simulation) Ended(_ context.Context, g *engine.Graph) error {
	if d.running == nil {
		return runToEnd(g, d.Step)
	}
	err := d.Turn(engine.Turn{Action: "wait for the end", Ready: func() bool {
		select {
		case <-g.Done():
			return true
		default:
			return false
		}
	}})
	if err != nil {
		return err
	}
	return g.Err()
}

// runToEnd makes steps until g has ended.
func runToEnd(g *engine.Graph, step func() bool) error {
	for {
		select {
		case <-g.Done():
			return g.Err()
		default:
		}
		if !step() && g.Err() == nil {
			select {
			case <-g.Done():
				return g.Err()
			default:
				return ErrQuiet
			}
		}
	}
}

// Unwinds reports whether p, recovered in a function of a client or of a call, unwinds that function because the simulation has
// ended. If so, the function has to panic with p again.
func Unwinds(p any) bool { return p == any(errEnded) }
