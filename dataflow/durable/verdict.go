package durable

import (
	"errors"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A verdict is what becomes of one record.
type verdict struct {
	nonce    uint64
	position uint64        // 0 while that is not known
	err      error         // why it has no effect, or that nobody knows; guarded by the doorway's mu
	done     chan struct{} // closed when the record was taken
}

// errForgotten says that a verdict was asked for too late.
var errForgotten = errors.New("durable: the record is kept, but nobody remembers whether it was refused, because its key was there before or its entry was taken")

// await returns the deduplication results of records, which are not known yet.
func (w *doorway) await(nonces []uint64) []*verdict {
	vs := make([]*verdict, len(nonces))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, nonce := range nonces {
		vs[i] = &verdict{nonce: nonce, done: make(chan struct{})}
		w.waiting[nonce] = vs[i]
	}
	return vs
}

func (w *doorway) forget(vs []*verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range vs {
		delete(w.waiting, v.nonce)
	}
}

// outcome returns what became of a record of partition p, when that is known.
func (w *doorway) outcome(p int, v *verdict) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q, ok := v.err.(*QuarantinedError); ok {
		return &QuarantinedError{p, q.Letter}
	}
	return v.err
}

// placed notes where records are.
func (w *doorway) placed(vs []*verdict, at uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range vs {
		v.position = at
		w.settle(v)
	}
}

// settle says, with mu held, what became of a record, if that is known.
func (w *doorway) settle(v *verdict) {
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

// remember replaces what was refused by what a restored partition knows of it.
func (w *doorway) remember(r *refusals) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = refusals{slices.Clone(r.latest), r.before}
	clear(w.refused)
	for _, x := range r.latest {
		w.refused[x.nonce] = x.letter
	}
}

// took notes what a committed step took, and whether the partition takes more. It reports
// whether the partition has stopped with this step.
func (w *doorway) took(s *step, full *engine.Blocked) (stopped bool) {
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
	for _, v := range w.waiting { // before anything is forgotten: a step may refuse more than is remembered
		w.settle(v)
	}
	for _, x := range w.refusals.add(s) {
		delete(w.refused, x.nonce)
	}
	return w.stop(full)
}

// committed notes how far a step took records, before the ports show it: who sees the step
// and sends must not be acknowledged at a position that it took.
func (w *doorway) committed(s *step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = max(w.taken, s.taken)
}

// takenUpTo returns how far committed steps have taken records that this process knows of.
func (w *doorway) takenUpTo() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}
