package durable

import (
	"errors"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A verdict is the result of one record: whether it took effect.
type verdict struct {
	nonce    uint64
	position uint64        // 0 while unknown
	err      error         // why it has no effect, or that this is unknown; guarded by the mu of the partitionGateway
	done     chan struct{} // closed when the record was taken
}

// errForgotten says that the result of a record was asked for too late.
var errForgotten = errors.New("durable: the record is kept, but nobody remembers whether it was refused, because its key was there before or its entry was taken")

// await returns verdicts for records whose results are not known yet.
func (w *partitionGateway) await(nonces []uint64) []*verdict {
	vs := make([]*verdict, len(nonces))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, nonce := range nonces {
		vs[i] = &verdict{nonce: nonce, done: make(chan struct{})}
		w.waiting[nonce] = vs[i]
	}
	return vs
}

func (w *partitionGateway) forget(vs []*verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range vs {
		delete(w.waiting, v.nonce)
	}
}

// outcome returns the result of a record of partition p, once it is known.
func (w *partitionGateway) outcome(p int, v *verdict) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q, ok := v.err.(*QuarantinedError); ok {
		return &QuarantinedError{p, q.Letter}
	}
	return v.err
}

// placed notes the position of records.
func (w *partitionGateway) placed(vs []*verdict, at uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range vs {
		v.position = at
		w.settle(v)
	}
}

// settle completes a verdict, with mu held, if the result is known.
func (w *partitionGateway) settle(v *verdict) {
	select {
	case <-v.done:
		return
	default:
	}
	letter, refused := w.refused[v.nonce]
	switch {
	case letter != 0:
		v.err = &QuarantinedError{Letter: letter}
	case refused:
		v.err = engine.ErrDuplicate
	case v.position == 0 || v.position > w.applied:
		return
	case v.position <= w.before:
		v.err = errForgotten
	}
	close(v.done)
}

// remember replaces the known refusals by those of a restored partition.
func (w *partitionGateway) remember(r *refusals) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = refusals{slices.Clone(r.latest), r.before}
	clear(w.refused)
	for _, x := range r.latest {
		w.refused[x.nonce] = x.letter
	}
}

// took notes what a committed step took, and whether the partition takes more. It reports whether the
// partition has stopped with this step.
func (w *partitionGateway) took(s *step, full *engine.Blocked) (stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied = max(w.applied, s.taken)
	w.backlog.known = w.backlog.known.minus(s.size)
	w.backlog.end(s.taken)
	w.backlog.reach(s.taken)
	for _, nonce := range s.Refused {
		w.refused[nonce] = 0
	}
	for _, x := range s.Parked {
		w.refused[x.Nonce] = x.Letter
	}
	for _, v := range w.waiting { // before refusals are forgotten: a step may refuse more than are remembered
		w.settle(v)
	}
	for _, x := range w.refusals.add(s) {
		delete(w.refused, x.nonce)
	}
	return w.stop(full)
}

// committed notes how far a step took records. It must be called before the ports show the step: a caller that
// sees the step and then sends must not be acknowledged at a position that the step took.
func (w *partitionGateway) committed(s *step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = max(w.taken, s.taken)
}

// takenUpTo returns how far committed steps took records, as far as this process knows.
func (w *partitionGateway) takenUpTo() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}
