package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
)

// Why a record is refused. Package dataflow gives them their public names.
var (
	ErrClosed    = errors.New("dataflow: input is closed")
	ErrDuplicate = errors.New("dataflow: key is present already")
)

// An inlet is an input as the loop sees it.
type inlet interface {
	swap()           // what was accepted becomes what is taken; mu is held
	pushTaken(n int) // push the next n of what is taken
	drop()           // forget what was taken
	record(n int)    // keep a copy of the next n of what is taken

	// Of a driven site, where nothing is taken before it is pushed:
	heads() []head // the first record of each lane that has one
	width() int    // how many lanes there are
	takeAt(i int)  // push one record
}

// A door is what all inputs have: acceptance of records in one order, backpressure
// and the end.
type door struct {
	site    *Site
	op      *Op
	touched bool        // accepted something since the last take; guarded by the site's mu
	closed  bool        // guarded by the site's mu
	shut    atomic.Bool // nothing is accepted any more
}

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

// room waits until a record may be accepted. It is called and returns with mu held.
// It reports true if the site is idle: the caller has the token then and runs the
// record itself.
func (d *door) room(ctx context.Context) (idle bool, err error) {
	s := d.site
	if err := d.refuse(); err != nil {
		return false, err
	}
	if s.g.driven() {
		s.g.sent, s.g.steps = s.g.sent+1, 0
	}
	if s.token.take() {
		return true, nil
	}
	if s.queued < s.g.set.Queue {
		return false, nil
	}
	return d.waitRoom(ctx)
}

func (d *door) waitRoom(ctx context.Context) (idle bool, err error) {
	s := d.site
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
			s.settle(1)
			s.mu.Lock() // everything may have changed
			if failed == nil && s.queued >= s.g.set.Queue && d.refuse() == nil {
				s.waiters.add(w)
				continue
			}
		}
		err = d.refuse()
		break
	}
	s.senders--
	s.waiters.remove(w)
	s.g.idle.put(w)
	if err == nil && failed != nil {
		s.mu.Unlock()
		err = s.blocked(failed)
		s.mu.Lock()
	}
	if err == nil && s.token.take() {
		return true, nil
	}
	return false, err
}

// accepted notes n records of in, with mu held. Somebody has to be notified then.
func (d *door) accepted(in inlet, n int) {
	s := d.site
	s.queued += n
	if !d.touched {
		d.touched = true
		s.touched = append(s.touched, in)
	}
	if k := len(s.order); k > 0 && s.order[k-1].in == in {
		s.order[k-1].n += n
		return
	}
	s.order = append(s.order, stretch{in, n})
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
	if ok && s.stalled.Load() == 0 && s.token.give() {
		return nil
	}
	return s.look(ok)
}

// look is the rest of after, for when a step failed or somebody left something.
func (s *Site) look(ok bool) error {
	if ok {
		s.mu.Lock()
		if s.settle(1) {
			return nil
		}
	}
	return s.g.Err()
}

// An Inlet is an input of a plain stream.
type Inlet[T any] struct {
	door
	node  *Node[T]
	buf   []T // accepted; guarded by the site's mu
	taken []T // held by the token, as all below
	off   int
}

// NewInlet adds an input to the site.
func NewInlet[T any](s *Site, op *Op) (*Inlet[T], *Node[T]) {
	in := &Inlet[T]{door: door{site: s, op: op}, node: NewNode[T](s.Top())}
	in.node.part.inlets = append(in.node.part.inlets, in)
	s.replayers = append(s.replayers, replayInlet{op, in})
	s.doors = append(s.doors, &in.door)
	s.takers[op.index] = in
	checkType[T](op)
	s.open++
	return in, in.node
}

// Send accepts x, or waits until there is room for it.
//
// The first lines are the way of a sender that finds the site idle: two atomic
// operations besides the run itself.
func (in *Inlet[T]) Send(ctx context.Context, x T) error {
	s := in.site
	if !in.shut.Load() && (s.token.take() || s.token.await()) {
		return s.after(in.run(x))
	}
	if r := s.g.remote(); r != nil {
		_, err := in.sendRemote(ctx, r, x)
		return err
	}
	s.mu.Lock()
	idle, err := in.room(ctx)
	switch {
	case err != nil:
		s.mu.Unlock()
	case idle:
		s.mu.Unlock()
		err = s.after(in.run(x))
	default:
		in.buf = append(in.buf, x)
		in.accepted(in, 1)
		err = in.kick()
	}
	return err
}

// SendBatch accepts all of xs, in order, and as much at once as there is room for.
func (in *Inlet[T]) SendBatch(ctx context.Context, xs []T) (n int, err error) {
	s := in.site
	if r := s.g.remote(); r != nil {
		return in.sendRemote(ctx, r, xs...)
	}
	for n < len(xs) {
		idle := !in.shut.Load() && (s.token.take() || s.token.await())
		if !idle {
			s.mu.Lock()
			if idle, err = in.room(ctx); err != nil {
				s.mu.Unlock()
				return n, err
			}
			if idle {
				s.mu.Unlock()
			}
		}
		if idle {
			part := xs[n:min(len(xs), n+s.g.set.Queue)]
			ok := in.runAll(part)
			if ok {
				n += len(part)
			}
			if err = s.after(ok); err != nil {
				return n, err
			}
			continue
		}
		part := xs[n:min(len(xs), n+s.g.set.Queue-s.queued)]
		in.buf = append(in.buf, part...)
		in.accepted(in, len(part))
		if err = in.kick(); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// kick makes sure that what was accepted is run, and unlocks mu. If the caller runs it and
// the step fails, kick returns why.
func (d *door) kick() error {
	s := d.site
	if s.token.notify() {
		if !s.settle(1) {
			return s.g.Err()
		}
		return nil
	}
	s.mu.Unlock()
	return nil
}

// run makes a step with one element, and reports false if the step failed.
func (in *Inlet[T]) run(x T) (ok bool) {
	s := in.site
	defer s.guard()
	if s.recording != nil {
		s.recordItem(in.op, 1, []T{x})
	}
	in.node.one(x)
	if !s.bare() {
		s.finish()
	}
	return true
}

func (in *Inlet[T]) runAll(xs []T) (ok bool) {
	s := in.site
	defer s.guard()
	if s.recording != nil {
		s.recordItem(in.op, len(xs), slices.Clone(xs))
	}
	pushBlocks(in.node, xs)
	s.finish()
	return true
}

func (in *Inlet[T]) swap() {
	in.touched = false
	in.buf, in.taken = in.taken[:0], in.buf
	in.off = 0
}

func (in *Inlet[T]) pushTaken(n int) {
	pushBlocks(in.node, in.taken[in.off:in.off+n])
	in.off += n
}

func (in *Inlet[T]) record(n int) {
	in.site.recordItem(in.op, n, slices.Clone(in.taken[in.off:in.off+n]))
}

func (in *Inlet[T]) drop() { clear(in.taken) }

// pushBlocks pushes xs in batches of a block at most.
func pushBlocks[T any](n *Node[T], xs []T) {
	for size := block[T](); len(xs) > 0; {
		k := min(size, len(xs))
		n.push(xs[:k:k])
		xs = xs[k:]
	}
}
