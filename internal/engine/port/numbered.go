package port

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	if n, ok, err := elsewhere(&in.InputBase, ctx, func() ([]codec.Record, error) { return in.records(xs) }, numberedFrom(first)); ok {
		return n, err
	}
	known := repeated(in.next, first, len(xs))
	n, err := in.SendBatch(ctx, xs[known:])
	if err == engine.ErrUnknown {
		in.next = first + uint64(len(xs))
		return known, err
	}
	if n > 0 {
		in.next = first + uint64(known+n)
	}
	return known + n, err
}

// SendNumbered is Send of a value that is taken once; see [KeyedInput.SendBatchNumbered].
func (in *KeyedInput[K, V]) SendNumbered(ctx context.Context, k K, n uint64, v V) error {
	_, err := in.SendBatchNumberedOf(ctx, k, n, []V{v})
	return err
}

// SendBatchNumberedOf is SendBatchNumbered of values of one key.
func (in *KeyedInput[K, V]) SendBatchNumberedOf(ctx context.Context, k K, first uint64, vs []V) (int, error) {
	if in.check != nil {
		if err := in.check(k); err != nil {
			return 0, in.Op.BadKey(k, err)
		}
	}
	return in.SendBatchNumbered(ctx, first, slices.Repeat([]K{k}, len(vs)), vs)
}

// SendBatchNumbered is SendBatch of entries that have the numbers from first on, each of its
// key. Those that were accepted before count as accepted.
func (in *KeyedInput[K, V]) SendBatchNumbered(ctx context.Context, first uint64, ks []K, vs []V) (int, error) {
	if err := in.checkAll(ks); err != nil {
		return 0, err
	}
	if err := numberable(first, len(ks)); err != nil {
		return 0, err
	}
	if n, ok, err := elsewhere(&in.InputBase, ctx, func() ([]codec.Record, error) { return in.records(ks, vs) }, numberedFrom(first)); ok {
		return n, err
	}
	var fresh engine.Columns[K, V] // what was not accepted before
	var at []int                   // where it is in the batch
	for i, k := range ks {
		if first+uint64(i) >= in.next.of(k).Number {
			fresh.Append(false, k, vs[i], 0)
			at = append(at, i)
		}
	}
	n, err := in.SendBatch(ctx, fresh.K, fresh.V)
	kept := n
	if err == engine.ErrUnknown {
		kept = len(at)
	}
	for _, i := range at[:kept] {
		in.next.set(ks[i], codec.LastSeen{Number: first + uint64(i) + 1})
	}
	if n < len(at) {
		return at[n], err
	}
	return len(ks), err
}

// SendBy is Send of an element that the named sender sends once.
func (in *Input[T]) SendBy(ctx context.Context, sender string, n uint64, x T) error {
	if err := numberable(n, 1); err != nil {
		return err
	}
	encode := func() ([]codec.Record, error) { return in.records([]T{x}) }
	if _, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, n)); ok {
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
	encode := func() ([]codec.Record, error) { return in.records([]K{k}, []V{v}) }
	if in.once && in.Loc.Graph.Settings.Remote != nil {
		rs, err := numberedRecords(&in.InputBase, encode, numberedBy(sender, n))
		if err != nil {
			return err
		}
		return in.Loc.Graph.Settings.Remote.Put(ctx, in.Loc.Number, rs)[0]
	}
	if _, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, n)); ok {
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
	if err == nil || err == engine.ErrDuplicate || err == engine.ErrUnknown {
		n.set(k, codec.LastSeen{Number: number + 1, Refused: err == engine.ErrDuplicate})
	}
	return err
}

// numberedFrom returns a function that says of which number a record is, of an input or a key
// of it. In a history a source counts from 1.
func numberedFrom(first uint64) func(i int, r *codec.Record) {
	return func(i int, r *codec.Record) {
		r.Source, r.Number = codec.InputSource+string(r.Key), first+uint64(i)+1
	}
}

// numberedBy returns a function that says of which number of a sender a record is.
func numberedBy(sender string, n uint64) func(i int, r *codec.Record) {
	return func(_ int, r *codec.Record) {
		r.Source, r.Number = codec.NamedSource+sender, n+1
	}
}

// elsewhere makes records part of the history, if that is elsewhere: ok says so.
func elsewhere(d *engine.InputBase, ctx context.Context, encode func() ([]codec.Record, error), number func(i int, r *codec.Record)) (n int, ok bool, err error) {
	r := d.Loc.Graph.Settings.Remote
	if r == nil {
		return 0, false, nil
	}
	rs, err := numberedRecords(d, encode, number)
	if err != nil || len(rs) == 0 {
		return 0, true, err
	}
	n, err = r.Send(ctx, d.Loc.Number, rs)
	return n, true, err
}

// numberedRecords returns records with their numbers, unless the input is closed.
func numberedRecords(d *engine.InputBase, encode func() ([]codec.Record, error), number func(i int, r *codec.Record)) ([]codec.Record, error) {
	if d.Shut.Load() {
		return nil, engine.ErrClosed
	}
	rs, err := encode()
	if err != nil {
		return nil, err
	}
	for i := range rs {
		number(i, &rs[i])
	}
	return rs, nil
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

// records encodes entries as records of the history.
func (in *KeyedInput[K, V]) records(ks []K, vs []V) ([]codec.Record, error) {
	c := in.Loc.Graph.Settings.Codec
	rs := make([]codec.Record, len(ks))
	for i, k := range ks {
		var key []byte
		var err error
		if i > 0 && k == ks[i-1] {
			key = rs[i-1].Key
		} else if key, err = c.Append(nil, k); err != nil {
			return nil, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, in.Op, err)
		}
		value, err := c.Append(nil, vs[i])
		if err != nil {
			return nil, fmt.Errorf("dataflow: encoding a %T of key %v for %s: %w", vs[i], k, in.Op, err)
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

// sendRemote makes entries records of the history.
func (in *KeyedInput[K, V]) sendRemote(ctx context.Context, ks []K, vs []V) (int, error) {
	rs, err := in.records(ks, vs)
	if err != nil {
		return 0, err
	}
	return in.Loc.Graph.Settings.Remote.Send(ctx, in.Loc.Number, rs)
}

// sendOneRemote makes an entry a record of the history, which may refuse it if keys come once.
func (in *KeyedInput[K, V]) sendOneRemote(ctx context.Context, k K, v V) error {
	if !in.once {
		_, err := in.sendRemote(ctx, []K{k}, []V{v})
		return err
	}
	rs, err := in.records([]K{k}, []V{v})
	if err != nil {
		return err
	}
	return in.Loc.Graph.Settings.Remote.Put(ctx, in.Loc.Number, rs)[0]
}

// putRemote makes entries records of the history, which may refuse them, and sets errs to what
// became of each.
func (in *KeyedInput[K, V]) putRemote(ctx context.Context, ks []K, vs []V, errs []error) ([]error, error) {
	if len(ks) == 0 {
		return errs, nil
	}
	if in.Shut.Load() {
		return fill(errs, engine.ErrClosed), engine.ErrClosed
	}
	rs, err := in.records(ks, vs)
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
