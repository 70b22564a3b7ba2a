package engine

import "fmt"

// In a led graph the calls that were asked for are part of the state until their
// answers are in the history. So a call is made again after a crash if its answer was
// not, and only the first answer counts.

// emit makes the calls that the step asked for pending. They begin when it is durable.
func (a *async[K, V, U]) emit(dst []byte, _ Codec) ([]byte, error) {
	for i, k := range a.step.k {
		if p, added := a.pending.Put(k, a.step.h[i]); added {
			*p = a.step.v[i]
			a.fresh.k = append(a.fresh.k, k)
			a.fresh.v = append(a.fresh.v, a.step.v[i])
			a.fresh.h = append(a.fresh.h, a.step.h[i])
		}
	}
	a.step.clear()
	return dst, nil
}

// accept lets the answer to a pending call wait.
func (in *answers[K, V, U]) accept(r *Record, c Codec) (bool, error) {
	a := in.to
	var k K
	var u U
	if r.Kind != kindAnswer {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", errRecord, r.Kind, a.op)
	}
	if err := decodeEntry(r, c, &k, &u); err != nil {
		return false, fmt.Errorf("%w for %s", err, a.op)
	}
	h := a.in.hash.Hash(k)
	if !a.pending.Delete(k, h) {
		return false, nil // the call was made twice, and answered before
	}
	a.in.buf.append(true, k, u, h)
	a.in.accepted(a.in, 1)
	return true, nil
}

// begin makes the calls that the last step asked for.
func (a *async[K, V, U]) begin() {
	fresh := a.fresh
	a.fresh = columns[K, V]{}
	a.enqueueLed(fresh)
}

// resume makes all calls that have no answer.
func (a *async[K, V, U]) resume() {
	a.fresh = columns[K, V]{}
	var all columns[K, V]
	for k, v := range a.pending.All() {
		all.k, all.v, all.h = append(all.k, k), append(all.v, *v), append(all.h, a.in.hash.Hash(k))
	}
	a.enqueueLed(all)
}

func (a *async[K, V, U]) enqueueLed(c columns[K, V]) {
	if len(c.k) > 0 {
		a.mu.Lock()
		a.enqueue(c)
		a.mu.Unlock()
	}
}

// answered makes an answer part of the history.
func (a *async[K, V, U]) answered(k K, u U) error {
	c := a.site.g.set.Codec
	key, err := c.Append(nil, k)
	if err != nil {
		return err
	}
	value, err := c.Append(nil, u)
	if err != nil {
		return err
	}
	r := Record{Op: a.op.index, Kind: kindAnswer, Key: key, Value: value}
	return a.site.g.set.Answer(r.Encode(nil))
}

// full reports whether more calls wait for their turn than may.
func (a *async[K, V, U]) full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting() > a.site.g.set.Queue
}
