package port

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A numbered send is taken once, however often it is made: a record is taken only if its number is greater than that of every
// earlier record of its source. For an input with one sender the source is the input, or the key of a keyed input; otherwise it
// is the sender that the call names. If the history is kept elsewhere, the last numbers are part of the state that its executor
// saves; otherwise the input remembers them.

// errNumber says that no number follows the one given.
var errNumber = errors.New("dataflow: the number of a send has to be less than 1<<64 - 1")

// A Numbering returns the number of the element of a batch with index i, and a minor number that orders elements with the same
// number.
type Numbering func(i int) (number, minor uint64)

// From returns the numbering of a batch whose elements are numbered from first on.
func From(first uint64) Numbering {
	return func(i int) (uint64, uint64) { return first + uint64(i), 0 }
}

// seen returns what is remembered of element i. A source counts from 1, so that the zero value precedes everything.
func (at Numbering) seen(i int) codec.LastSeen {
	number, minor := at(i)
	return codec.LastSeen{Number: number + 1, Minor: minor}
}

// known returns how many of n elements, whose numbers increase, are not after last.
func (at Numbering) known(n int, last codec.LastSeen) int {
	return sort.Search(n, func(i int) bool { return at.seen(i).After(last) })
}

// grows returns an error unless the numbers of n elements increase and another number follows the last.
func (at Numbering) grows(n int) error {
	for i := range n {
		number, minor := at(i)
		if number == math.MaxUint64 {
			return errNumber
		}
		if i == 0 {
			continue
		}
		if before, beforeMinor := at(i - 1); number < before || number == before && minor <= beforeMinor {
			return fmt.Errorf("dataflow: positions of a batch have to grow: that of element %d, %d.%d, is not behind %d.%d", i, number, minor, before, beforeMinor)
		}
	}
	return nil
}

// SendNumbered is Send of an element that is taken once; see [Input.SendBatchNumbered].
func (in *Input[T]) SendNumbered(ctx context.Context, n uint64, x T) error {
	_, err := in.SendBatchNumbered(ctx, n, []T{x})
	return err
}

// SendBatchNumbered is SendBatch of elements numbered from first on. Elements that were accepted before count as accepted.
func (in *Input[T]) SendBatchNumbered(ctx context.Context, first uint64, xs []T) (int, error) {
	if err := numberable(first, len(xs)); err != nil {
		return 0, err
	}
	return in.sendNumbered(ctx, From(first), xs)
}

func (in *Input[T]) sendNumbered(ctx context.Context, at Numbering, xs []T) (int, error) {
	if n, ok, err := elsewhere(&in.InputBase, ctx, func(slab *codec.Slab) ([]codec.Record, error) { return in.records(slab, xs) }, numberedAs(at)); ok {
		return n, err
	}
	known := at.known(len(xs), in.last)
	n, err := in.SendBatch(ctx, xs[known:])
	if kept := accepted(n, len(xs)-known, err); kept > 0 {
		in.last = at.seen(known + kept - 1)
	}
	return known + n, err
}

// accepted returns how many of a batch of all elements may have been accepted; n are known to be.
func accepted(n, all int, err error) int {
	if err == engine.ErrUnknown {
		return all
	}
	return n
}

// SendNumbered is Send of a value that is taken once; see [KeyedInput.SendBatchNumbered].
func (in *KeyedInput[K, V]) SendNumbered(ctx context.Context, k K, n uint64, v V) error {
	_, err := in.SendBatchNumberedOf(ctx, k, n, []V{v})
	return err
}

// SendBatchNumberedOf is SendBatchNumbered of values of one key.
func (in *KeyedInput[K, V]) SendBatchNumberedOf(ctx context.Context, k K, first uint64, vs []V) (int, error) {
	if err := numberable(first, len(vs)); err != nil {
		return 0, err
	}
	return in.sendNumberedOf(ctx, k, From(first), vs)
}

// SendBatchAtOf is SendBatchNumberedOf with numbers that increase.
func (in *KeyedInput[K, V]) SendBatchAtOf(ctx context.Context, k K, at Numbering, vs []V) (int, error) {
	if err := at.grows(len(vs)); err != nil {
		return 0, err
	}
	return in.sendNumberedOf(ctx, k, at, vs)
}

func (in *KeyedInput[K, V]) sendNumberedOf(ctx context.Context, k K, at Numbering, vs []V) (_ int, err error) {
	if in.check != nil {
		if k, err = in.check(k); err != nil {
			return 0, in.Op.BadKey(k, err)
		}
	}
	return in.sendNumbered(ctx, at, slices.Repeat([]K{k}, len(vs)), vs)
}

// SendBatchNumbered is SendBatch of entries numbered from first on, each within its key. Entries that were accepted before count
// as accepted.
func (in *KeyedInput[K, V]) SendBatchNumbered(ctx context.Context, first uint64, ks []K, vs []V) (_ int, err error) {
	if ks, err = in.checkAll(ks); err != nil {
		return 0, err
	}
	if err := numberable(first, len(ks)); err != nil {
		return 0, err
	}
	return in.sendNumbered(ctx, From(first), ks, vs)
}

func (in *KeyedInput[K, V]) sendNumbered(ctx context.Context, number Numbering, ks []K, vs []V) (int, error) {
	if n, ok, err := elsewhere(&in.InputBase, ctx, func(slab *codec.Slab) ([]codec.Record, error) { return in.records(slab, ks, vs) }, numberedAs(number)); ok {
		return n, err
	}
	var fresh engine.Columns[K, V] // entries not accepted before
	var at []int                   // their places in the batch
	for i, k := range ks {
		one := Numbering(func(int) (uint64, uint64) { return number(i) })
		if one.known(1, in.next.of(k)) == 0 {
			engine.AppendEntry(&fresh, false, k, vs[i], 0)
			at = append(at, i)
		}
	}
	n, err := in.SendBatch(ctx, fresh.K, fresh.V)
	for _, i := range at[:accepted(n, len(at), err)] {
		in.next.set(ks[i], number.seen(i))
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
	encode := func(slab *codec.Slab) ([]codec.Record, error) { return in.records(slab, []T{x}) }
	if _, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, From(n))); ok {
		return err
	}
	return in.by.once(sender, n, func() error { return in.Send(ctx, x) })
}

// SendBatchBy is SendBatch of elements that the named sender sends once, with numbers that increase.
func (in *Input[T]) SendBatchBy(ctx context.Context, sender string, at Numbering, xs []T) (int, error) {
	if err := at.grows(len(xs)); err != nil {
		return 0, err
	}
	encode := func(slab *codec.Slab) ([]codec.Record, error) { return in.records(slab, xs) }
	if n, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, at)); ok {
		return n, err
	}
	return in.by.batch(sender, at, len(xs), func(known int) (int, error) { return in.SendBatch(ctx, xs[known:]) })
}

// SendBy is Send of an entry that the named sender sends once. A repeated send has the outcome of the first.
func (in *KeyedInput[K, V]) SendBy(ctx context.Context, sender string, n uint64, k K, v V) (err error) {
	if in.check != nil {
		if k, err = in.check(k); err != nil {
			return in.Op.BadKey(k, err)
		}
	}
	if err := numberable(n, 1); err != nil {
		return err
	}
	encode := func(slab *codec.Slab) ([]codec.Record, error) { return in.records(slab, []K{k}, []V{v}) }
	if in.once && in.Loc.Graph.Settings.Remote != nil {
		rs, err := numberedRecords(&in.InputBase, new(codec.Slab), encode, numberedBy(sender, From(n)))
		if err != nil {
			return err
		}
		return in.Loc.Graph.Settings.Remote.Put(ctx, in.Loc.Number, rs)[0]
	}
	if _, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, From(n))); ok {
		return err
	}
	return in.by.once(sender, n, func() error { return in.Send(ctx, k, v) })
}

// SendBatchBy is SendBatch of entries that the named sender sends once, with numbers that increase. A key may occur more than
// once.
func (in *KeyedInput[K, V]) SendBatchBy(ctx context.Context, sender string, at Numbering, ks []K, vs []V) (_ int, err error) {
	if ks, err = in.checkAll(ks); err != nil {
		return 0, err
	}
	if err := at.grows(len(ks)); err != nil {
		return 0, err
	}
	encode := func(slab *codec.Slab) ([]codec.Record, error) { return in.records(slab, ks, vs) }
	if n, ok, err := elsewhere(&in.InputBase, ctx, encode, numberedBy(sender, at)); ok {
		return n, err
	}
	return in.by.batch(sender, at, len(ks), func(known int) (int, error) { return in.SendBatch(ctx, ks[known:], vs[known:]) })
}

// numberable returns an error if n elements cannot be numbered from first on.
func numberable(first uint64, n int) error {
	if first > math.MaxUint64-uint64(n) {
		return errNumber
	}
	return nil
}

// numbers holds the last numbered sends, by key or sender.
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

// once calls send unless k has sent this number, or a greater one, before.
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

// batch calls send for those of all elements that k has not sent before.
func (n *numbers[K]) batch(k K, at Numbering, all int, send func(known int) (int, error)) (int, error) {
	known := at.known(all, n.of(k))
	sent, err := send(known)
	if kept := accepted(sent, all-known, err); kept > 0 {
		n.set(k, at.seen(known+kept-1))
	}
	return known + sent, err
}

// numberedAs returns a function that numbers a record within its input or key. In a history a source counts from 1.
func numberedAs(at Numbering) func(i int, r *codec.Record) {
	return func(i int, r *codec.Record) { r.Source = codec.InputSource + string(r.Key); at.number(i, r) }
}

// numberedBy returns a function that numbers a record within its sender.
func numberedBy(sender string, at Numbering) func(i int, r *codec.Record) {
	source := codec.NamedSource + sender
	return func(i int, r *codec.Record) { r.Source = source; at.number(i, r) }
}

func (at Numbering) number(i int, r *codec.Record) {
	x := at.seen(i)
	r.Number, r.Minor = x.Number, x.Minor
}

// elsewhere sends records to the history if it is kept elsewhere, and reports in ok whether it is.
func elsewhere(d *engine.InputBase, ctx context.Context, encode func(*codec.Slab) ([]codec.Record, error), number func(i int, r *codec.Record)) (n int, ok bool, err error) {
	r := d.Loc.Graph.Settings.Remote
	if r == nil {
		return 0, false, nil
	}
	var slab codec.Slab
	defer slab.Free() // the history has a copy
	rs, err := numberedRecords(d, &slab, encode, number)
	if err != nil || len(rs) == 0 {
		return 0, true, err
	}
	n, err = r.Send(ctx, d.Loc.Number, rs)
	return n, true, err
}

// numberedRecords returns records with their numbers, unless the input is closed.
func numberedRecords(d *engine.InputBase, slab *codec.Slab, encode func(*codec.Slab) ([]codec.Record, error), number func(i int, r *codec.Record)) ([]codec.Record, error) {
	if d.Shut.Load() {
		return nil, engine.ErrClosed
	}
	rs, err := encode(slab)
	if err != nil {
		return nil, err
	}
	for i := range rs {
		number(i, &rs[i])
	}
	return rs, nil
}
