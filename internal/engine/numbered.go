package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
)

// A numbered send is taken once, however often it is made: of one source, a record is taken
// only if its number is greater than that of every one before. The source is the input, or
// the key of a keyed input, where that has one sender; else it is the sender that the call
// names. Where the history is elsewhere, what is remembered is part of the state that it
// has, see [Leader]; else it is what the input remembers.

// errNumber says that there is no number after the one given.
var errNumber = errors.New("dataflow: the number of a send has to be less than 1<<64 - 1")

// SendNumbered is Send of an element that is taken once; see [Inlet.SendBatchNumbered].
func (in *Inlet[T]) SendNumbered(ctx context.Context, n uint64, x T) error {
	_, err := in.SendBatchNumbered(ctx, n, []T{x})
	return err
}

// SendBatchNumbered is SendBatch of elements that have the numbers from first on. Those
// that were accepted before count as accepted.
func (in *Inlet[T]) SendBatchNumbered(ctx context.Context, first uint64, xs []T) (int, error) {
	if err := numberable(first, len(xs)); err != nil {
		return 0, err
	}
	if n, ok, err := in.elsewhere(ctx, func() ([]Record, error) { return in.records(xs) }, numberedFrom(first), false); ok {
		return n, err
	}
	known := repeated(in.next, first, len(xs))
	n, err := in.SendBatch(ctx, xs[known:])
	if n > 0 {
		in.next = first + uint64(known+n)
	}
	return known + n, err
}

// SendNumbered is Send of a value that is taken once; see [KInlet.SendBatchNumbered].
func (in *KInlet[K, V]) SendNumbered(ctx context.Context, k K, n uint64, v V) error {
	_, err := in.SendBatchNumbered(ctx, k, n, []V{v})
	return err
}

// SendBatchNumbered is SendBatch of values of k that have the numbers from first on. Those
// that were accepted before count as accepted.
func (in *KInlet[K, V]) SendBatchNumbered(ctx context.Context, k K, first uint64, vs []V) (int, error) {
	if in.check != nil {
		if err := in.check(k); err != nil {
			return 0, in.op.badKey(k, err)
		}
	}
	if err := numberable(first, len(vs)); err != nil {
		return 0, err
	}
	if n, ok, err := in.elsewhere(ctx, func() ([]Record, error) { return in.records(k, vs) }, numberedFrom(first), false); ok {
		return n, err
	}
	known := repeated(in.next.of(k).number, first, len(vs))
	n, err := in.SendBatch(ctx, k, vs[known:])
	if n > 0 {
		in.next.set(k, sourced{number: first + uint64(known+n)})
	}
	return known + n, err
}

// SendBatch accepts all of vs under one key, in order. Where the history is elsewhere they
// go there together.
func (in *KInlet[K, V]) SendBatch(ctx context.Context, k K, vs []V) (int, error) {
	if in.check == nil || in.check(k) == nil { // else Send says why not
		if n, ok, err := in.elsewhere(ctx, func() ([]Record, error) { return in.records(k, vs) }, nil, false); ok {
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
func (in *Inlet[T]) SendBy(ctx context.Context, sender string, n uint64, x T) error {
	if err := numberable(n, 1); err != nil {
		return err
	}
	encode := func() ([]Record, error) { return in.records([]T{x}) }
	if _, ok, err := in.elsewhere(ctx, encode, numberedBy(sender, n), false); ok {
		return err
	}
	return in.by.once(sender, n, func() error { return in.Send(ctx, x) })
}

// SendBy is Send of an entry that the named sender sends once. What is sent again has the
// outcome that it had.
func (in *KInlet[K, V]) SendBy(ctx context.Context, sender string, n uint64, k K, v V) error {
	if in.check != nil {
		if err := in.check(k); err != nil {
			return in.op.badKey(k, err)
		}
	}
	if err := numberable(n, 1); err != nil {
		return err
	}
	encode := func() ([]Record, error) { return in.records(k, []V{v}) }
	if _, ok, err := in.elsewhere(ctx, encode, numberedBy(sender, n), in.seen != nil); ok {
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
	sent map[K]sourced
}

func (n *numbers[K]) of(k K) sourced {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[k]
}

func (n *numbers[K]) set(k K, sent sourced) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sent == nil {
		n.sent = make(map[K]sourced)
	}
	n.sent[k] = sent
}

// once calls send unless k has sent something with this number, or a greater one, before.
func (n *numbers[K]) once(k K, number uint64, send func() error) error {
	last := n.of(k)
	if number+1 < last.number || number+1 == last.number && !last.refused {
		return nil
	}
	if number+1 == last.number {
		return ErrDuplicate
	}
	err := send()
	if err == nil || err == ErrDuplicate {
		n.set(k, sourced{number + 1, err != nil})
	}
	return err
}

// Sources of records that their senders have numbered begin with one of these; the number of
// the input and the key, or the sender, follow.
const (
	inputSource = "\x00input "
	namedSource = "\x00sender "
)

// numberedFrom returns a function that says of which number a record is, of an input or a key
// of it. In a history a source counts from 1.
func numberedFrom(first uint64) func(i int, r *Record) {
	return func(i int, r *Record) {
		r.Source, r.Number = inputSource+strconv.Itoa(int(r.Op))+" "+string(r.Key), first+uint64(i)+1
	}
}

// numberedBy returns a function that says of which number of a sender a record is.
func numberedBy(sender string, n uint64) func(i int, r *Record) {
	return func(_ int, r *Record) {
		r.Source, r.Number = namedSource+strconv.Itoa(int(r.Op))+" "+sender, n+1
	}
}

// numberOf returns the number that the sender of r has given it, and the sender's name if it
// has one.
func (r *Record) numberOf() (n uint64, sender string, ok bool) {
	if strings.HasPrefix(r.Source, inputSource) {
		return r.Number - 1, "", true
	}
	if rest, ok := strings.CutPrefix(r.Source, namedSource); ok {
		_, sender, _ = strings.Cut(rest, " ")
		return r.Number - 1, sender, true
	}
	return 0, "", false
}

// elsewhere makes records part of the history, if that is elsewhere: ok says so.
func (d *door) elsewhere(ctx context.Context, encode func() ([]Record, error), number func(i int, r *Record), unique bool) (n int, ok bool, err error) {
	r := d.site.g.set.Remote
	if r == nil {
		return 0, false, nil
	}
	if d.shut.Load() {
		return 0, true, ErrClosed
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
	n, err = r.Send(ctx, d.site.number, rs, unique)
	return n, true, err
}

// records encodes elements as records of the history.
func (in *Inlet[T]) records(xs []T) ([]Record, error) {
	rs := make([]Record, len(xs))
	for i, x := range xs {
		value, err := in.site.g.set.Codec.Append(nil, x)
		if err != nil {
			return nil, fmt.Errorf("dataflow: encoding a %T for %s: %w", x, in.op, err)
		}
		rs[i] = Record{Op: in.op.index, Value: value}
	}
	return rs, nil
}

// records encodes values of k as records of the history.
func (in *KInlet[K, V]) records(k K, vs []V) ([]Record, error) {
	c := in.site.g.set.Codec
	key, err := c.Append(nil, k)
	if err != nil {
		return nil, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, in.op, err)
	}
	rs := make([]Record, len(vs))
	for i, v := range vs {
		value, err := c.Append(nil, v)
		if err != nil {
			return nil, fmt.Errorf("dataflow: encoding a %T of key %v for %s: %w", v, k, in.op, err)
		}
		rs[i] = Record{Op: in.op.index, Key: key, Value: value}
	}
	return rs, nil
}
