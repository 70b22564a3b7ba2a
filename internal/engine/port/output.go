package port

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/engine/token"
)

// Over implements [engine.Output].
func (out *Output[T]) Over() (engine.Blocked, bool) {
	out.mu.Lock()
	defer out.mu.Unlock()
	return engine.Blocked{Op: out.op, Waiting: len(out.buf) - out.off, Bound: out.bound}, out.stalled
}

// An Output is an output of a plain stream. It holds elements until they are read. A location whose output exceeds its bound does
// not run until readers have brought it down to half. So nothing is lost, and memory is bounded by the bound plus what one step
// gives.
type Output[T any] struct {
	engine.NoEntries
	engine.NoValue
	loc   *engine.Location
	op    *engine.Op
	bound int
	step  []T    // given in this step; held by the token
	given []T    // in a simulated graph: everything it was ever given; guarded by mu
	first uint64 // in a log-driven graph: the number of buf[0] among all elements ever
	saved *state.Queue[T]

	// of the ports of a flow that runs elsewhere
	remote  engine.Remote
	fed     map[int]uint64 // by source: the number of the next element; written by the feeder, with mu held
	fresh   mark           // of what is in step; held by the feeder
	marks   []*mark        // of elements not yet reported as read; guarded by mu
	reading int            // marks[:reading] belong to elements no longer in buf; guarded by mu

	_       token.CacheLinePad
	mu      sync.Mutex
	buf     []T
	off     int    // buf[:off] has been read
	gone    uint64 // number of read elements that are no longer in buf
	stalled bool
	ended   bool
	err     error
	readers token.WaiterChain
}

// NewOutput makes an output for the elements of n.
func NewOutput[T any](n *engine.Node[T], op *engine.Op) *Output[T] {
	if n.Region != nil && n.Region.Name != "" {
		engine.Misuse(op.Name, "the collection is inside %s: emit it first", n.Region)
	}
	out := &Output[T]{loc: n.Loc, op: op, bound: n.Loc.Graph.Settings.Buffer, remote: n.Loc.Graph.Settings.Remote}
	n.Loc.AddOutput(op, out)
	engine.Lasting(op).Add(nil, func(op *engine.Op) engine.State {
		elements := state.Plain[T](op)
		out.saved = state.NewQueue(&out.first, &out.buf, elements)
		return unreadState[T]{out.saved, out, "unread(" + elements.Kind + ")"}
	})
	n.Consume(&engine.Consumer[T]{Push: engine.CheckedOutput(op, func(batch []T) {
		out.changing()
		out.step = append(out.step, batch...)
	}), One: engine.CheckedElement(op, func(x T) {
		out.changing()
		out.step = append(out.step, x)
	})})
	return out
}

// changing lists the output as changed by the step, before the step's first element.
func (out *Output[T]) changing() {
	if len(out.step) == 0 {
		out.loc.Ports = append(out.loc.Ports, out)
	}
}

// Operator implements [engine.Output].
func (out *Output[T]) Operator() *engine.Op { return out.op }

// Release implements [engine.Port].
func (out *Output[T]) Release() {
	out.Give()
	out.Show()
}

// Show implements [engine.Port].
func (out *Output[T]) Show() bool {
	out.readers.Signal()
	out.mu.Unlock()
	out.Forget()
	return false
}

// Wake implements [engine.Port].
func (out *Output[T]) Wake() {} // Show did it

// Forget implements [engine.Port].
func (out *Output[T]) Forget() {
	if len(out.step) > 0 { // it is empty if Give has swapped it
		clear(out.step)
	}
	out.step, out.fresh = out.step[:0], mark{}
}

// Give implements [engine.Port].
func (out *Output[T]) Give() {
	out.mu.Lock()
	if out.fresh.left > 0 {
		if out.fed == nil {
			out.fed = make(map[int]uint64)
		}
		out.fed[out.fresh.source] = out.fresh.number
		fresh := out.fresh
		out.marks = append(out.marks, &fresh)
	}
	if out.loc.Simulated() {
		out.given = append(out.given, out.step...)
		if out.loc.Graph.Bounded && len(out.given) > out.bound {
			out.loc.Graph.Settings.Turns.Touch(out.op.Capacity(), engine.Adds)
		}
	}
	if out.off == len(out.buf) { // all was read, and cleared
		out.gone += uint64(out.off)
		out.buf, out.off = out.buf[:0], 0
	} else if out.off > len(out.buf)/2 { // make room at the front rather than grow without limit
		n := copy(out.buf, out.buf[out.off:])
		clear(out.buf[n:])
		out.gone += uint64(out.off)
		out.buf, out.off = out.buf[:n], 0
	}
	if len(out.buf) == 0 { // swap instead of copying
		out.buf, out.step = out.step, out.buf
	} else {
		out.buf = append(out.buf, out.step...)
	}
	if !out.stalled && out.loc.Graph.Bounded && len(out.buf)-out.off > out.bound {
		out.stalled = true
		out.loc.Stall()
	}
}

// End implements [engine.Output].
func (out *Output[T]) End(err error) {
	out.mu.Lock()
	out.ended, out.err = true, err
	out.readers.Signal()
	out.mu.Unlock()
}

// Next returns the next element. It returns io.EOF after the last one, and the
// flow's error once the flow has failed and everything released has been read.
func (out *Output[T]) Next(ctx context.Context) (T, error) {
	if out.remote != nil {
		out.back()
	}
	x, _, err := out.next(ctx, false)
	return x, err
}

// Given returns everything that the output of a simulated graph was ever given, read or not.
func (out *Output[T]) Given() []T {
	if out.loc.Turn(engine.Turn{Action: "look at", Op: out.op}) == nil {
		out.op.Touch(0, engine.Reads)
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return slices.Clone(out.given)
}

// Receive is Next for a reader that says when it has handled the element, by calling ack. Calls of ack after the first do
// nothing.
func (out *Output[T]) Receive(ctx context.Context) (x T, ack func(), err error) {
	x, m, err := out.next(ctx, true)
	if err != nil || m == nil {
		return x, func() {}, err
	}
	return x, out.acknowledging(m), nil
}

// acknowledging returns a function that marks what m covers as handled.
func (out *Output[T]) acknowledging(m *mark) func() {
	var acked atomic.Bool
	return func() {
		if acked.CompareAndSwap(false, true) {
			out.mu.Lock()
			m.open = false
			out.reportRead()
		}
	}
}

// next is Next. If the reader will acknowledge the element, m is its mark.
func (out *Output[T]) next(ctx context.Context, acked bool) (x T, m *mark, err error) {
	if !out.loc.Simulated() {
		return out.wait(ctx, acked)
	}
	if err = out.turn(); err == nil {
		x, m, err = out.wait(ctx, acked)
	}
	out.loc.Used(engine.Use{Op: out.op, Do: "next", Value: x, OK: err == nil, Err: err})
	return x, m, err
}

// wait waits for the next element and returns it.
func (out *Output[T]) wait(ctx context.Context, acked bool) (x T, m *mark, err error) {
	out.mu.Lock()
	if out.off < len(out.buf) { // no closure on the path of each element
		x, m = out.one(acked)
		return x, m, nil
	}
	err = out.ready(ctx, func() { x, m = out.one(acked) })
	return x, m, err
}

// ready waits until there is an element and then calls take with mu held; take unlocks it. ready is called with mu held.
func (out *Output[T]) ready(ctx context.Context, take func()) (err error) {
	w := out.loc.Graph.Waiters.Get()
	out.loc.Enlist(w)
	for {
		if out.off < len(out.buf) {
			take()
			break
		}
		if out.ended {
			if err = out.err; err == nil {
				err = io.EOF
			}
			out.mu.Unlock()
			break
		}
		out.readers.Add(w)
		out.mu.Unlock()
		err = out.loc.Pause(ctx, w)
		out.mu.Lock()
		out.readers.Remove(w)
		if err != nil && out.off == len(out.buf) {
			out.mu.Unlock()
			err = out.loc.Starved(err)
			break
		}
		err = nil
	}
	out.loc.Leave(w) // without a lock: the location has its own
	out.loc.Graph.Waiters.Put(w)
	return err
}

// one takes the next element, and its mark if it has one. It is called with mu held and unlocks it.
func (out *Output[T]) one(acked bool) (x T, m *mark) {
	x = out.buf[out.off]
	if out.reading < len(out.marks) {
		m = out.popped(1, acked)
	}
	out.pop(1)
	return x, m
}

// pop drops the next n elements from the buffer. It is called with mu held and unlocks it.
func (out *Output[T]) pop(n int) {
	if read := out.buf[out.off : out.off+n]; n == 1 { // as for Next; clear is a call of the runtime
		var none T
		read[0] = none
	} else {
		clear(read)
	}
	out.off += n
	if out.off < len(out.buf) {
		out.readers.Signal() // for another reader
	}
	resume := out.stalled && len(out.buf)-out.off <= out.bound/2
	if resume {
		out.stalled = false
	}
	out.mu.Unlock()
	if resume {
		out.loc.Resume()
	}
}

// A Run is a run of consecutive elements of an output that come from one partition.
type Run[T any] struct {
	Elements  []T
	Partition int
	First     uint64 // number of the first one, counted from 1
	Ack       func() // reports that they were handled
}

// ReceiveRun is Receive of up to most elements of one partition. It waits only for the first.
func (out *Output[T]) ReceiveRun(ctx context.Context, most int) (r Run[T], err error) {
	if out.loc.Simulated() {
		x, _, err := out.next(ctx, true)
		out.mu.Lock()
		defer out.mu.Unlock()
		return Run[T]{Elements: []T{x}, First: out.gone + uint64(out.off), Ack: func() {}}, err
	}
	out.mu.Lock()
	err = out.ready(ctx, func() {
		n := min(most, len(out.buf)-out.off)
		r.First, r.Ack = out.gone+uint64(out.off)+1, func() {}
		if out.reading < len(out.marks) {
			m := out.marks[out.reading]
			n = min(n, m.left)
			r.Partition, r.First = m.source, m.number-uint64(m.left)+1
			r.Ack = out.acknowledging(out.popped(n, true))
		}
		r.Elements = append(r.Elements, out.buf[out.off:out.off+n]...)
		out.pop(n)
	})
	return r, err
}

// A flow that runs elsewhere keeps what its outputs gave until it learns that readers have handled it. The elements of a step
// that Next returned are reported together, and everything is reported in order.

// A mark stands for what one step has given, or for a part of that.
type mark struct {
	source int
	number uint64 // of the element after them, at their source
	left   int    // elements that no reader has taken
	open   bool   // Receive has returned the element, and it is not acknowledged
	given  bool   // Next has returned some, and no reader has come back since
}

// popped records, with mu held, that a reader has taken the next n elements, which share one mark.
func (out *Output[T]) popped(n int, acked bool) *mark {
	m := out.marks[out.reading]
	if acked && m.left > n { // they get a mark of their own
		one := &mark{source: m.source, number: m.number - uint64(m.left-n), left: n, given: m.given}
		m.left, m.given = m.left-n, false
		out.marks = slices.Insert(out.marks, out.reading, one)
		m = one
	}
	if m.left -= n; m.left == 0 {
		out.reading++
	}
	if acked {
		m.open = true
	} else {
		m.given = true
	}
	return m
}

// back records that a reader has come back: it has handled what Next returned before.
func (out *Output[T]) back() {
	out.mu.Lock()
	if len(out.marks) == 0 {
		out.mu.Unlock()
		return
	}
	for _, m := range out.marks[:min(out.reading+1, len(out.marks))] {
		m.given = false
	}
	out.reportRead()
}

// reportRead reports to the history what was handled, up to the first element of each source that was not. It is called with mu held
// and unlocks it.
func (out *Output[T]) reportRead() {
	var handled []*mark
	var waiting []int // sources with something earlier that is not handled
	n := 0
	for _, m := range out.marks[:out.reading] {
		if m.open || m.given || slices.Contains(waiting, m.source) {
			out.marks[n], n = m, n+1
			waiting = append(waiting, m.source)
		} else {
			handled = append(handled, m)
		}
	}
	if len(handled) > 0 {
		out.marks = slices.Delete(out.marks, n, out.reading)
		out.reading = n
	}
	out.mu.Unlock()
	for _, m := range handled {
		out.remote.Read(out.loc.Number, out.op.Index, m.source, m.number)
	}
}

// Figures implements [engine.Output].
func (out *Output[T]) Figures() engine.OutputStatus {
	out.mu.Lock()
	defer out.mu.Unlock()
	return engine.OutputStatus{Op: out.op, Kind: engine.Elements, Unread: len(out.buf) - out.off, Given: out.first + out.gone + uint64(len(out.buf)), Bound: out.bound}
}
