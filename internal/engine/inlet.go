package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Why a record is refused. Package dataflow gives them their public names.
var (
	ErrClosed    = errors.New("dataflow: input is closed")
	ErrDuplicate = errors.New("dataflow: key is present already")
)

// An input is where records enter a location: an input of the program, the far end of an
// exchange, a cycle, or the answers of asynchronous calls. Records wait in it in the order
// of acceptance, until the planner takes them for a step.
type input interface {
	base() *door

	takeAll()                 // what was accepted is taken; mu is held
	takeAt(i int, again bool) // the record with index i of what was accepted is taken, and waits on if it comes again; mu is held
	push(n int)               // push the next n of what was taken; see step.go
	heads() []head            // the first record of each lane that has one; see lanes.go
	width() int               // how many lanes there are so far
	say(i int) string         // the record with index i of what was accepted, for people

	copyTaken(at, n int) any // copies of n records that were taken, from the one with index at
	load(records any) error  // take what copyTaken returned, of an input of the same type

	// accept lets a record of a history wait. It reports false if the record is refused.
	accept(r *Record, c Codec) (ok bool, err error)
}

// A door is what all inputs have: acceptance of records in one order, backpressure
// and the end.
type door struct {
	site    *Site
	op      *Op
	touched bool        // accepted something since the last take; guarded by the site's mu
	closed  bool        // guarded by the site's mu
	plan    Plan        // of a sender that runs the site; held by the token
	shut    atomic.Bool // nothing is accepted any more
	retried bool        // a record may come more than once
}

func (d *door) base() *door { return d }

// refuse says why nothing is accepted, with mu held.
func (d *door) refuse() error {
	switch {
	case d.site.err != nil:
		return d.site.err
	case d.closed || d.site.closing:
		return ErrClosed
	}
	return nil
}

// room waits until a record may be accepted; see [driver].
func (d *door) room(ctx context.Context) (admission, error) {
	s := d.site
	switch err := d.refuse(); {
	case err != nil:
		return refused, err
	case s.token.take():
		return run, nil
	case s.queued < s.g.set.Queue:
		return leave, nil
	}
	w := s.g.idle.get()
	s.waiters.add(w)
	s.senders++
	var failed error // the end of ctx
	for {
		s.mu.Unlock()
		failed = s.pause(ctx, w)
		s.mu.Lock()
		if failed == nil && s.queued >= s.g.set.Queue && d.refuse() == nil {
			continue
		}
		if w.lead { // handed the token while leaving
			w.lead = false
			s.g.driver.settle(s, 1)
			s.mu.Lock() // everything may have changed
			if failed == nil && s.queued >= s.g.set.Queue && d.refuse() == nil {
				s.waiters.add(w)
				continue
			}
		}
		break
	}
	s.senders--
	s.waiters.remove(w)
	s.g.idle.put(w)
	err := d.refuse()
	if err == nil && failed != nil {
		s.mu.Unlock()
		err = s.blocked(failed)
		s.mu.Lock()
	}
	switch {
	case err != nil:
		return refused, err
	case s.token.take():
		return run, nil
	}
	return leave, nil
}

// accepted notes n records of in, with mu held. Somebody has to be notified then.
func (d *door) accepted(in input, n int) {
	s := d.site
	s.queued += n
	if !d.touched {
		d.touched = true
		s.touched = append(s.touched, in)
	}
	if k := len(s.order); k > 0 && s.order[k-1].Op == d.op.index {
		s.order[k-1].N += n
		return
	}
	s.order = append(s.order, Take{Op: d.op.index, N: n})
}

// take has the inputs take everything that was accepted, and returns it in order. The
// memory of what was taken last is used again. It is called with mu held by the holder of
// the token.
func (s *Site) take(last []Take) []Take {
	taken := s.order
	s.order = last[:0]
	for _, in := range s.touched {
		in.base().touched = false
		in.takeAll()
	}
	s.touched = s.touched[:0]
	s.queued = 0
	if s.senders > 0 {
		s.waiters.wakeAll()
	}
	if len(s.moving.clogged) > 0 {
		s.madeRoom()
	}
	return taken
}

// Close ends the input. Closing twice is fine.
func (d *door) Close() {
	s := d.site
	s.mu.Lock()
	if !d.closed {
		d.closed = true
		d.shut.Store(true)
		if s.senders > 0 {
			s.waiters.wakeAll()
		}
		s.closeInlet()
	}
	s.mu.Unlock()
}

// after gives the token back when the caller has run its own record. The caller passes
// on whether that step came to its end; after returns why the flow failed if it did not,
// or if a step failed that the caller made for others then.
func (s *Site) after(ok bool) error {
	if ok && !s.left() {
		return nil
	}
	return s.look(ok)
}

// left gives the token back unless somebody left something, and reports whether somebody
// did. It is short enough to be inlined.
func (s *Site) left() bool { return s.stalled.Load() != 0 || !s.token.give() }

// look is the rest of after, for when a step failed or somebody left something.
func (s *Site) look(ok bool) error {
	if ok {
		s.mu.Lock()
		if s.g.driver.settle(s, 1) {
			return nil
		}
	}
	return s.g.Err()
}

// An Inlet is an input of a plain stream.
type Inlet[T any] struct {
	door
	Turns uint64          // sends begun, of an input with one sender, which alone writes it; see turn.go
	next  uint64          // of the numbered sends; the sender's as well
	by    numbers[string] // of numbered sends that name their sender
	node  *Node[T]
	buf   []T // accepted; guarded by the site's mu
	taken []T // held by the token, as all below
	off   int

	unordered *recordLanes // of an input without order, else nil
}

// NewInlet adds an input to the site.
func NewInlet[T any](s *Site, op *Op) (*Inlet[T], *Node[T]) {
	in := &Inlet[T]{door: door{site: s, op: op}, node: NewNode[T](s.Top())}
	s.addInput(op, in, in.node.part)
	s.doors = append(s.doors, &in.door)
	checkType[T](op)
	op.takes(in.node.counter())
	s.open++
	return in, in.node
}

// addInput adds an input with the number of op. What is in it belongs to p.
func (s *Site) addInput(op *Op, in input, p *part) {
	for len(s.inputs) <= int(op.index) {
		s.inputs = append(s.inputs, nil)
	}
	s.inputs[op.index] = in
	p = p.find()
	p.inlets = append(p.inlets, in)
}

// Send accepts x, or waits until there is room for it.
//
// The first lines are the way of a sender that finds the site idle: two atomic
// operations besides the run itself.
func (in *Inlet[T]) Send(ctx context.Context, x T) error {
	if in == nil || ctx == nil {
		return misused(in == nil, "dataflow.InputPort", "Send")
	}
	s := in.site
	if !in.shut.Load() && s.token.take() {
		if ok := in.stepOne(x); !ok || s.left() {
			return s.look(ok)
		}
		return nil
	}
	return in.sendBusy(ctx, x)
}

// misused panics for a call on the way of each record, of a port that nothing made or without
// a context. As the result of a function that does not return, it leaves its caller nothing
// to keep for afterwards.
func misused(unmade bool, name, method string) error {
	if unmade {
		Unmade(name, "ports come from Input and Output functions")
	}
	NilContext(name + "." + method)
	return nil
}

// sendBusy is Send for a site that is not idle. It is apart so that Send needs no room for
// what only this uses.
func (in *Inlet[T]) sendBusy(ctx context.Context, x T) error {
	s := in.site
	if !in.shut.Load() && s.token.await() {
		return s.after(in.stepOne(x))
	}
	s.mu.Lock()
	how, err := s.g.driver.admit(ctx, &in.door)
	if how == leave {
		in.buf = append(in.buf, x)
		in.accepted(in, 1)
		return in.kick()
	}
	s.mu.Unlock()
	switch how {
	case run:
		err = s.after(in.stepOne(x))
	case elsewhere:
		_, err = in.sendRemote(ctx, x)
	}
	return err
}

// SendBatch accepts all of xs, in order, and as much at once as there is room for.
func (in *Inlet[T]) SendBatch(ctx context.Context, xs []T) (n int, err error) {
	s := in.site
	for n < len(xs) {
		how := run
		if in.shut.Load() || !s.token.take() && !s.token.await() {
			s.mu.Lock()
			if how, err = s.g.driver.admit(ctx, &in.door); how != leave {
				s.mu.Unlock()
			}
		}
		switch how {
		case refused:
			return n, err
		case elsewhere:
			return in.sendRemote(ctx, xs...)
		case leave:
			part := xs[n:min(len(xs), n+s.g.set.Queue-s.queued)]
			in.buf = append(in.buf, part...)
			in.accepted(in, len(part))
			if err = in.kick(); err != nil {
				return n, err
			}
			n += len(part)
		case run:
			part := xs[n:min(len(xs), n+s.g.set.Queue)]
			ok := stepAll(in.node, part, in)
			if ok {
				n += len(part)
			}
			if err = s.after(ok); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// kick makes sure that what was accepted is run, and unlocks mu. If the caller runs it and
// the step fails, kick returns why.
func (d *door) kick() error {
	s := d.site
	if s.token.notify() {
		if !s.g.driver.settle(s, 1) {
			return s.g.Err()
		}
		return nil
	}
	s.mu.Unlock()
	return nil
}

func (in *Inlet[T]) takeAll() {
	in.buf, in.taken = in.taken, in.buf
}

func (in *Inlet[T]) takeAt(i int, again bool) {
	in.taken = append(in.taken, in.buf[i])
	if !again {
		in.unordered.took(i)
		in.buf = slices.Delete(in.buf, i, i+1)
	}
}

func (in *Inlet[T]) say(i int) string { return fmt.Sprint(in.buf[i]) }

func (in *Inlet[T]) copyTaken(at, n int) any { return slices.Clone(in.taken[in.off+at:][:n]) }

func (in *Inlet[T]) load(records any) error {
	xs, ok := records.([]T)
	if !ok {
		return fmt.Errorf("%s takes %T, the recording has %T", in.op, xs, records)
	}
	in.taken = append(in.taken, xs...)
	return nil
}

// push pushes the next n of what was taken, and forgets them when none is left.
func (in *Inlet[T]) push(n int) {
	pushBlocks(in.node, in.taken[in.off:in.off+n])
	if in.off += n; in.off == len(in.taken) {
		clear(in.taken)
		in.taken, in.off = in.taken[:0], 0
	}
}

// stepOne makes the step of one record; see [stepOne].
func (in *Inlet[T]) stepOne(x T) bool { return stepOne(in.node, x, in) }

// planOf takes x and returns the plan that takes it.
func (in *Inlet[T]) planOf(x T) *Plan {
	in.taken = append(in.taken, x)
	return in.all(1)
}

// planAll takes xs and returns the plan that takes them.
func (in *Inlet[T]) planAll(xs []T) *Plan {
	in.taken = append(in.taken, xs...)
	return in.all(len(xs))
}
