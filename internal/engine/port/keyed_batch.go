package port

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// SendBatch accepts entries, in order, as many at a time as there is room for. One step takes all entries that are accepted at
// once. If one entry has a bad key, none is accepted.
func (in *KeyedInput[K, V]) SendBatch(ctx context.Context, ks []K, vs []V) (n int, err error) {
	if ks, err = in.checkAll(ks); err == nil {
		n, err = in.sendAll(ctx, ks, vs)
	}
	in.usedAll("send", ks, vs, err)
	return n, err
}

func (in *KeyedInput[K, V]) sendAll(ctx context.Context, ks []K, vs []V) (n int, err error) {
	s, all := in.Loc, engine.Columns[K, V]{K: ks, V: vs}
	if err := sendTurn(&in.InputBase); err != nil {
		return 0, err
	}
	for n < len(ks) {
		how := engine.RunNow
		if in.Shut.Load() || !s.Token.Take() && !s.Token.Await() {
			s.Mu.Lock()
			if how, err = s.Graph.Driver.Admit(ctx, &in.InputBase); how != engine.Enqueue {
				s.Mu.Unlock()
			}
		}
		switch how {
		case engine.Refused:
			return n, err
		case engine.Elsewhere:
			return in.sendRemote(ctx, ks, vs)
		case engine.Enqueue:
			part := engine.SliceEntries(all, n, min(len(ks), n+s.Graph.Settings.Queue-s.Queued))
			engine.AppendEntries(&in.buf, part)
			in.Accepted(in, len(part.K))
			if err = in.Kick(); err != nil {
				return n, err
			}
			n += len(part.K)
		case engine.RunNow:
			part := engine.SliceEntries(all, n, min(len(ks), n+s.Graph.Settings.Queue))
			ok := in.stepAll(part)
			if ok {
				n += len(part.K)
			}
			if err = s.After(ok); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// SendBatchOf is SendBatch of values of one key.
func (in *KeyedInput[K, V]) SendBatchOf(ctx context.Context, k K, vs []V) (_ int, err error) {
	if in.check != nil {
		if k, err = in.check(k); err != nil {
			return 0, in.Op.BadKey(k, err)
		}
	}
	return in.SendBatch(ctx, slices.Repeat([]K{k}, len(vs)), vs)
}

// checkAll returns the keys for the values of a batch, or the error for the first one that cannot be a key. The batch belongs to
// the caller and stays as it is.
func (in *KeyedInput[K, V]) checkAll(ks []K) ([]K, error) {
	if in.check == nil {
		return ks, nil
	}
	all := ks
	if in.changes {
		all = slices.Clone(ks)
	}
	for i, k := range ks {
		key, err := in.check(k)
		if err != nil {
			return ks, in.Op.BadKeyAt(i, k, err)
		}
		if in.changes {
			all[i] = key
		}
	}
	return all, nil
}

// PutBatch is SendBatch for an input that accepts each key once. It returns for each entry what Send would return: nil,
// ErrDuplicate, or why the entry was not accepted. The error says that some entries were not accepted, or that the flow failed.
func (in *KeyedInput[K, V]) PutBatch(ctx context.Context, ks []K, vs []V) (errs []error, err error) {
	if ks, err = in.checkAll(ks); err == nil {
		errs, err = in.putAll(ctx, ks, vs)
	} else {
		errs = fill(make([]error, len(ks)), err)
	}
	in.usedAll("put", ks, vs, err)
	return errs, err
}

func (in *KeyedInput[K, V]) putAll(ctx context.Context, ks []K, vs []V) (errs []error, err error) {
	errs = make([]error, len(ks))
	s := in.Loc
	if s.Graph.Settings.Remote != nil {
		return in.putRemote(ctx, ks, vs, errs)
	}
	if err := sendTurn(&in.InputBase); err != nil {
		return fill(errs, err), err
	}
	for _, k := range ks {
		in.looks(k)
	}
	for n := 0; n < len(ks); {
		how := engine.Enqueue
		if !in.Shut.Load() && (s.Token.Take() || s.Token.Await()) {
			how = engine.RunNow
		}
		s.Mu.Lock()
		if how == engine.Enqueue {
			// Before an entry waits for room, check whether its key is a duplicate.
			for n < len(ks) && s.Queued >= s.Graph.Settings.Queue && in.present(ks[n]) {
				errs[n] = engine.ErrDuplicate
				n++
			}
			if n == len(ks) {
				s.Mu.Unlock()
				break
			}
			if how, err = s.Graph.Driver.Admit(ctx, &in.InputBase); how == engine.Refused {
				in.refuse(ks[n:], errs[n:], err)
				s.Mu.Unlock()
				return errs, err
			}
		}
		from, space, into := n, s.Graph.Settings.Queue, &in.taken
		if how == engine.Enqueue {
			space, into = space-s.Queued, &in.buf
		}
		fresh := 0
		for ; n < len(ks) && fresh < space; n++ {
			h := in.hash.Hash(ks[n])
			if !in.put(ks[n], h) {
				errs[n] = engine.ErrDuplicate
				continue
			}
			engine.AppendEntry(into, true, ks[n], vs[n], h)
			fresh++
		}
		ok, err := in.enterAll(how, fresh)
		for i := from; i < n && !ok; i++ {
			if errs[i] == nil {
				errs[i] = err
			}
		}
		if err != nil {
			s.Mu.Lock()
			in.refuse(ks[n:], errs[n:], err)
			s.Mu.Unlock()
			return errs, err
		}
	}
	return errs, nil
}

// enterAll proceeds with n records as their admission says; one step takes them all. If the sender holds the token, the records
// are in taken; otherwise they are at the end of buf. It is called with mu held and returns with mu free. It reports false if the
// caller ran their step and the step failed. The error says why the location failed, if it failed while the caller ran it.
func (in *KeyedInput[K, V]) enterAll(how engine.Admission, n int) (ok bool, err error) {
	s := in.Loc
	switch {
	case how == engine.Enqueue && n == 0:
		s.Mu.Unlock()
		return true, nil
	case how == engine.Enqueue:
		in.Accepted(in, n)
		err = in.Kick()
		return err == nil, err
	case n == 0:
		s.Graph.Driver.Settle(s, 1)
		return true, nil
	}
	s.Mu.Unlock()
	ok = in.stepTaken(n)
	return ok, s.After(ok)
}

// present reports, with mu held, whether a key was accepted.
func (in *KeyedInput[K, V]) present(k K) bool { return in.has(k, in.hash.Hash(k)) }

// refuse sets the error of each entry to err, or to ErrDuplicate if its key was accepted before. It is called with mu held.
func (in *KeyedInput[K, V]) refuse(ks []K, errs []error, err error) {
	for i, k := range ks {
		if errs[i] = err; in.present(k) {
			errs[i] = engine.ErrDuplicate
		}
	}
}

// fill sets all of errs to err.
func fill(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// stepAll runs the step of entries whose slices remain the sender's; see [engine.StepEntries].
func (in *KeyedInput[K, V]) stepAll(all engine.Columns[K, V]) bool {
	if in.Loc.Planned() {
		engine.AppendEntries(&in.taken, all)
		return in.StepTaken(len(all.K))
	}
	return engine.StepEntries(in.node, all, &in.batch)
}

// stepTaken runs the step of the n taken entries.
func (in *KeyedInput[K, V]) stepTaken(n int) bool {
	if in.Loc.Planned() {
		return in.StepTaken(n)
	}
	ok := engine.StepEntries(in.node, in.taken, &in.batch)
	engine.ClearEntries(&in.taken)
	return ok
}

// records encodes entries, in the memory of a slab, as records of the history.
func (in *KeyedInput[K, V]) records(slab *codec.Slab, ks []K, vs []V) ([]codec.Record, error) {
	c := in.Loc.Graph.Settings.Codec
	rs := slab.Records(len(ks))
	for i, k := range ks {
		var key []byte
		var err error
		if i > 0 && k == ks[i-1] {
			key = rs[i-1].Key
		} else if key, err = c.Append(nil, k); err != nil {
			return nil, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, in.Op, err)
		}
		value, err := codec.AppendPointed(slab.Begin(sizeOf(rs, i), len(ks)-i), c, &vs[i])
		if err != nil {
			return nil, fmt.Errorf("dataflow: encoding a %T of key %v for %s: %w", vs[i], k, in.Op, err)
		}
		rs[i] = codec.Record{Op: in.Op.Index, Key: key, Value: slab.End(value)}
	}
	return rs, nil
}

// sizeOf estimates the size of value number i from that of the one before.
func sizeOf(rs []codec.Record, i int) int {
	if i == 0 {
		return 16
	}
	return len(rs[i-1].Value) + 8
}

// decode decodes an entry. Records of one split or sender often have the same key, which is then decoded once.
func (in *KeyedInput[K, V]) decode(r *codec.Record, c codec.Codec, e *decoded[K, V]) error {
	const short = 256 // longer keys are not worth keeping
	if last := &in.lastKey; len(r.Key) > 0 && bytes.Equal(r.Key, last.encoded) {
		e.k = last.k
	} else if err := decodeKey(r, c, &e.k); err != nil {
		return err
	} else if len(r.Key) <= short {
		last.encoded, last.k = append(last.encoded[:0], r.Key...), e.k
	}
	return decodeValue(r, c, e.k, &e.v)
}

// A decoded is the memory that a codec decodes an entry into. Pointers to it pass through an interface, so local variables would
// be allocated for each record.
type decoded[K comparable, V any] struct {
	k K
	v V
}

// An encodedKey is a key and how it was encoded.
type encodedKey[K comparable] struct {
	encoded []byte
	k       K
}

func decodeEntry[K comparable, V any](r *codec.Record, c codec.Codec, k *K, v *V) error {
	if err := decodeKey(r, c, k); err != nil {
		return err
	}
	return decodeValue(r, c, *k, v)
}

func decodeKey[K comparable](r *codec.Record, c codec.Codec, k *K) error {
	if err := c.Decode(r.Key, k); err != nil {
		return fmt.Errorf("dataflow: decoding a key %T: %w", *k, err)
	}
	return nil
}

func decodeValue[K comparable, V any](r *codec.Record, c codec.Codec, k K, v *V) error {
	if err := c.Decode(r.Value, v); err != nil {
		return fmt.Errorf("dataflow: decoding a %T of key %v: %w", *v, k, err)
	}
	return nil
}

// sendRemote sends entries as records of the history.
func (in *KeyedInput[K, V]) sendRemote(ctx context.Context, ks []K, vs []V) (int, error) {
	var slab codec.Slab
	defer slab.Free() // the history has a copy
	rs, err := in.records(&slab, ks, vs)
	if err != nil {
		return 0, err
	}
	return in.Loc.Graph.Settings.Remote.Send(ctx, in.Loc.Number, rs)
}

// sendOneRemote sends an entry as a record of the history, which refuses a duplicate if each key is accepted once.
func (in *KeyedInput[K, V]) sendOneRemote(ctx context.Context, k K, v V) error {
	if !in.once {
		_, err := in.sendRemote(ctx, []K{k}, []V{v})
		return err
	}
	rs, err := in.records(new(codec.Slab), []K{k}, []V{v})
	if err != nil {
		return err
	}
	return in.Loc.Graph.Settings.Remote.Put(ctx, in.Loc.Number, rs)[0]
}

// putRemote sends entries as records of the history, which may refuse them, and sets errs to the outcome of each.
func (in *KeyedInput[K, V]) putRemote(ctx context.Context, ks []K, vs []V, errs []error) ([]error, error) {
	if len(ks) == 0 {
		return errs, nil
	}
	if in.Shut.Load() {
		return fill(errs, engine.ErrClosed), engine.ErrClosed
	}
	rs, err := in.records(new(codec.Slab), ks, vs)
	if err != nil {
		return fill(errs, err), err
	}
	for i, e := range in.Loc.Graph.Settings.Remote.Put(ctx, in.Loc.Number, rs) {
		if errs[i] = e; e != nil && err == nil && !errors.Is(e, engine.ErrDuplicate) {
			err = e
		}
	}
	return errs, err
}
