package durable

import (
	"errors"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A recordResult is the result of one record: whether it took effect.
type recordResult struct {
	nonce    uint64
	position uint64        // 0 while unknown
	err      error         // why it has no effect, or that this is unknown; guarded by the mu of the partitionGateway
	done     chan struct{} // closed when the record was taken
}

// errForgotten says that the result of a record was asked for too late.
var errForgotten = errors.New("durable: the record is kept, but nobody remembers whether it was refused, because its key was there before or its entry was taken")

// awaitResults returns a recordResult for each of some records whose results are not known yet.
func (pg *partitionGateway) awaitResults(nonces []uint64) []*recordResult {
	vs := make([]*recordResult, len(nonces))
	pg.mu.Lock()
	defer pg.mu.Unlock()
	for i, nonce := range nonces {
		vs[i] = &recordResult{nonce: nonce, done: make(chan struct{})}
		pg.waiting[nonce] = vs[i]
	}
	return vs
}

func (pg *partitionGateway) forgetResults(vs []*recordResult) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	for _, v := range vs {
		delete(pg.waiting, v.nonce)
	}
}

// outcome returns the result of a record of partition p, once it is known.
func (pg *partitionGateway) outcome(p int, v *recordResult) error {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if q, ok := v.err.(*QuarantinedError); ok {
		return &QuarantinedError{p, q.Letter}
	}
	return v.err
}

// setPosition notes the position of records.
func (pg *partitionGateway) setPosition(vs []*recordResult, at uint64) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	for _, v := range vs {
		v.position = at
		pg.settle(v)
	}
}

// settle completes a result, with mu held, if the result is known.
func (pg *partitionGateway) settle(v *recordResult) {
	select {
	case <-v.done:
		return
	default:
	}
	letter, refused := pg.refused[v.nonce]
	switch {
	case letter != 0:
		v.err = &QuarantinedError{Letter: letter}
	case refused:
		v.err = engine.ErrDuplicate
	case v.position == 0 || v.position > pg.applied:
		return
	case v.position <= pg.before:
		v.err = errForgotten
	}
	close(v.done)
}

// remember replaces the known refusals by those of a restored partition.
func (pg *partitionGateway) remember(r *refusals) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	pg.refusals = refusals{slices.Clone(r.latest), r.before}
	clear(pg.refused)
	for _, x := range r.latest {
		pg.refused[x.nonce] = x.letter
	}
}

// took notes what a committed step took, and whether the partition takes more. It reports whether the
// partition has stopped with this step.
func (pg *partitionGateway) took(s *step, full *engine.Blocked) (stopped bool) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	pg.applied = max(pg.applied, s.taken)
	pg.backlog.known = pg.backlog.known.minus(s.size)
	pg.backlog.end(s.taken)
	pg.backlog.reach(s.taken)
	for _, nonce := range s.Refused {
		pg.refused[nonce] = 0
	}
	for _, x := range s.Parked {
		pg.refused[x.Nonce] = x.Letter
	}
	for _, v := range pg.waiting { // before refusals are forgotten: a step may refuse more than are remembered
		pg.settle(v)
	}
	for _, x := range pg.refusals.add(s) {
		delete(pg.refused, x.nonce)
	}
	return pg.stop(full)
}

// committed notes how far a step took records. It must be called before the ports show the step: a caller that
// sees the step and then sends must not be acknowledged at a position that the step took.
func (pg *partitionGateway) committed(s *step) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	pg.taken = max(pg.taken, s.taken)
}

// takenUpTo returns how far committed steps took records, as far as this process knows.
func (pg *partitionGateway) takenUpTo() uint64 {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	return pg.taken
}
