package port

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A numbered send is taken once, however often it is made: of one source, a record is taken
// only if its number is greater than that of every one before. The source is the input, or
// the key of a keyed input, where that has one sender; else it is the sender that the call
// names. Where the history is elsewhere, what is remembered is part of the state that
// its executor saves; else it is what the input remembers.

// errNumber says that there is no number after the one given.
var errNumber = errors.New("dataflow: the number of a send has to be less than 1<<64 - 1")

// SendNumbered is Send of an element that is taken once; see [Input.SendBatchNumbered].
func (in *Input[T]) SendNumbered(ctx context.Context, n uint64, x T) error {
	_, err := in.SendBatchNumbered(ctx, n, []T{x})
	return err
}

// SendBatchNumbered is SendBatch of elements that have the numbers from first on. Those
// that were accepted before count as accepted.
func (in *Input[T]) SendBatchNumbered(ctx context.Context, first uint64, xs []T) (int, error) {
	if err := numberable(first, len(xs)); err != nil {
		return 0, err
	}
	if n, ok, err := elsewhere(&in.InputBase, ctx, func() ([]codec.Record, error) { return in.records(xs) }, numberedFrom(first), false); ok {
		return n, err
	}
	known := repeated(in.next, first, len(xs))
	n, err := in.SendBatch(ctx, xs[known:])
	if n > 0 {
		in.next = first + uint64(known+n)
	}
	return known + n, err
}

// SendNumbered is Send of a value that is taken once; see [KeyedInput.SendBatchNumbered].
func (in *KeyedInput[K, V]) SendNumbered(ctx context.Context, k K, n uint64, v V) error {
	_, err := in.SendBatchNumbered(ctx, k, n, []V{v})
	return err
}

// SendBatchNumbered is SendBatch of values of k that have the numbers from first on. Those
// that were accepted before count as accepted.
func (in *KeyedInput[K, V]) SendBatchNumbered(ctx context.Context, k K, first uint64, vs []V) (int, error) {
	if in.check != nil {
		if err := in.check(k); err != nil {
			return 0, in.Op.BadKey(k, err)
		}
	}
	if err := numberable(first, len(vs)); err != nil {
		return 0, err
	}
	if n, ok, err := elsewhere(&in.InputBase, ctx, func() ([]codec.Record, error) { return in.records(k, vs) }, numberedFrom(first), false); ok {
		return n, err
	}
	known := repeated(in.next.of(k).Number, first, len(vs))
	n, err := in.SendBatch(ctx, k, vs[known:])
	if n > 0 {
		in.next.set(k, codec.LastSeen{Number: first + uint64(known+n)})
	}
	return known + n, err
}

// SendBatch accepts all of vs under one key, in order. Where the history is elsewhere they
// go there together.
func (in *KeyedInput[K, V]) SendBatch(ctx context.Context, k K, vs []V) (int, error) {
	if in.check == nil || in.check(k) == nil { // else Send says why not
		if n, ok, err := elsewhere(&in.InputBase, ctx, func() ([]codec.Record, error) { return in.records(k, vs) }, nil, false); ok {
			return n, err
		}
	}
	for n, v := range vs {
		if err := in.Send(ctx, k, v); err != nil {
			return n, err
		}
	}
	return len(vs), nil
}

// SendBy is Send of an element that the named sender sends once.
func (in *Input[T]) SendBy(ctx context.Context, sender string, n uint64, x T) error {
	if err := numberable(n, 1); err != nil {
		return err
	}
	encode := func() ([]codec.Record, error) { return in.records([]T{x}) }
	if _, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, n), false); ok {
		return err
	}
	return in.by.once(sender, n, func() error { return in.Send(ctx, x) })
}

// SendBy is Send of an entry that the named sender sends once. What is sent again has the
// outcome that it had.
func (in *KeyedInput[K, V]) SendBy(ctx context.Context, sender string, n uint64, k K, v V) error {
	if in.check != nil {
		if err := in.check(k); err != nil {
			return in.Op.BadKey(k, err)
		}
	}
	if err := numberable(n, 1); err != nil {
		return err
	}
	encode := func() ([]codec.Record, error) { return in.records(k, []V{v}) }
	if _, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, n), in.seen != nil); ok {
		return err
	}
	return in.by.once(sender, n, func() error { return in.Send(ctx, k, v) })
}

// numberable reports why n elements cannot have the numbers from first on.
func numberable(first uint64, n int) error {
	if first > math.MaxUint64-uint64(n) {
		return errNumber
	}
	return nil
}

// repeated returns how many of n elements with the numbers from first on are before next.
func repeated(next, first uint64, n int) int {
	if next <= first {
		return 0
	}
	return int(min(next-first, uint64(n)))
}

// numbers are what is remembered of numbered sends, by key or sender.
type numbers[K comparable] struct {
	mu   sync.Mutex
	sent map[K]codec.LastSeen
}

func (n *numbers[K]) of(k K) codec.LastSeen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[k]
}

func (n *numbers[K]) set(k K, sent codec.LastSeen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sent == nil {
		n.sent = make(map[K]codec.LastSeen)
	}
	n.sent[k] = sent
}

// once calls send unless k has sent something with this number, or a greater one, before.
func (n *numbers[K]) once(k K, number uint64, send func() error) error {
	last := n.of(k)
	if number+1 < last.Number || number+1 == last.Number && !last.Refused {
		return nil
	}
	if number+1 == last.Number {
		return engine.ErrDuplicate
	}
	err := send()
	if err == nil || err == engine.ErrDuplicate {
		n.set(k, codec.LastSeen{Number: number + 1, Refused: err != nil})
	}
	return err
}

// numberedFrom returns a function that says of which number a record is, of an input or a key
// of it. In a history a source counts from 1.
func numberedFrom(first uint64) func(i int, r *codec.Record) {
	return func(i int, r *codec.Record) {
		r.Source, r.Number = codec.InputSource+strconv.Itoa(int(r.Op))+" "+string(r.Key), first+uint64(i)+1
	}
}

// numberedBy returns a function that says of which number of a sender a record is.
func numberedBy(sender string, n uint64) func(i int, r *codec.Record) {
	return func(_ int, r *codec.Record) {
		r.Source, r.Number = codec.NamedSource+strconv.Itoa(int(r.Op))+" "+sender, n+1
	}
}

// elsewhere makes records part of the history, if that is elsewhere: ok says so.
func elsewhere(d *engine.InputBase, ctx context.Context, encode func() ([]codec.Record, error), number func(i int, r *codec.Record), unique bool) (n int, ok bool, err error) {
	r := d.Loc.Graph.Settings.Remote
	if r == nil {
		return 0, false, nil
	}
	if d.Shut.Load() {
		return 0, true, engine.ErrClosed
	}
	rs, err := encode()
	if err != nil || len(rs) == 0 {
		return 0, true, err
	}
	for i := range rs {
		if number != nil {
			number(i, &rs[i])
		}
	}
	if unique { // it is one record
		return 0, true, r.Put(ctx, d.Loc.Number, rs)[0]
	}
	n, err = r.Send(ctx, d.Loc.Number, rs)
	return n, true, err
}

// records encodes elements as records of the history.
func (in *Input[T]) records(xs []T) ([]codec.Record, error) {
	rs := make([]codec.Record, len(xs))
	for i, x := range xs {
		value, err := in.Loc.Graph.Settings.Codec.Append(nil, x)
		if err != nil {
			return nil, fmt.Errorf("dataflow: encoding a %T for %s: %w", x, in.Op, err)
		}
		rs[i] = codec.Record{Op: in.Op.Index, Value: value}
	}
	return rs, nil
}

// records encodes values of k as records of the history.
func (in *KeyedInput[K, V]) records(k K, vs []V) ([]codec.Record, error) {
	c := in.Loc.Graph.Settings.Codec
	key, err := c.Append(nil, k)
	if err != nil {
		return nil, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, in.Op, err)
	}
	rs := make([]codec.Record, len(vs))
	for i, v := range vs {
		value, err := c.Append(nil, v)
		if err != nil {
			return nil, fmt.Errorf("dataflow: encoding a %T of key %v for %s: %w", v, k, in.Op, err)
		}
		rs[i] = codec.Record{Op: in.Op.Index, Key: key, Value: value}
	}
	return rs, nil
}

// sendRemote makes elements records of the history.
func (in *Input[T]) sendRemote(ctx context.Context, xs ...T) (int, error) {
	rs, err := in.records(xs)
	if err != nil || len(rs) == 0 {
		return 0, err
	}
	return in.Loc.Graph.Settings.Remote.Send(ctx, in.Loc.Number, rs)
}

// sendRemote makes an entry a record of the history.
func (in *KeyedInput[K, V]) sendRemote(ctx context.Context, k K, v V) error {
	rs, err := in.records(k, []V{v})
	if err != nil {
		return err
	}
	if in.seen != nil {
		return in.Loc.Graph.Settings.Remote.Put(ctx, in.Loc.Number, rs)[0]
	}
	_, err = in.Loc.Graph.Settings.Remote.Send(ctx, in.Loc.Number, rs)
	return err
}
