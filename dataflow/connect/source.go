package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
)

// A Source is a system that is read, with its guarantees as types: O is the order within a key, and R says whether a record may
// come more than once. The implementation of a [Reader] or [Receiver] does not choose them; the constructors do.
type Source[K comparable, V any, O dataflow.Order, R dataflow.Retries] struct {
	_        [0]func(K, V, O, R)
	reader   Reader[K, V]
	receiver Receiver[K, V]
	check    func([]Split) error // checks that the splits are as the markers require; nil if any are
	bySplit  bool                // keys are the names of splits
	why      dataflow.NonDet
}

// BySplit returns a source in which the key of each record is the name of its split, whatever key the reader gives it. So the
// order within a key holds for any reader. Two splits with one name are an error. If a split is deleted and created again under
// the same name, the new one is read while the rest of the old one still is.
//
// Splits are read at different speeds, especially after a restart. If event times matter, use a port of [SplitsInput] and
// window.StampSplits, which has one mark for each split. window.StampKeyed has one mark for all keys and treats the records of a
// slower split as late. If the number of splits is known, each can be stamped separately, with keyedstream.Get and window.Stamp,
// which needs no reason.
func BySplit[K comparable, V any](r Reader[K, V]) Source[string, V, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	return Source[string, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{reader: bySplit[K, V]{r}, check: oneOfEachName, bySplit: true}
}

// Whole returns a source with one split: a file, a slot of a database, a stream. Its elements have one order. Two splits are an
// error. If another split replaces the first, it is read while the rest of the first still is.
func Whole[V any](r Reader[struct{}, V]) Source[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	return Source[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{reader: r, check: oneAtMost}
}

// ByKey returns a source in which all records of a key are in one split. Nothing checks that: the reason says why it holds, such
// as who divides the keys of a topic among its partitions, and why the number of partitions does not change.
func ByKey[K comparable, V any](r Reader[K, V], why dataflow.NonDet) Source[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	return Source[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{reader: r, why: why}
}

// Unordered returns a source whose records come once each, in no order.
func Unordered[K comparable, V any](r Reader[K, V]) Source[K, V, dataflow.NoOrder, dataflow.ExactlyOnce] {
	return Source[K, V, dataflow.NoOrder, dataflow.ExactlyOnce]{reader: r}
}

// Delivered returns a source whose records may come again, in no order.
func Delivered[K comparable, V any](r Receiver[K, V]) Source[K, V, dataflow.NoOrder, dataflow.AtLeastOnce] {
	return Source[K, V, dataflow.NoOrder, dataflow.AtLeastOnce]{receiver: r}
}

// Weaken returns the same source without its order.
func Weaken[K comparable, V any, R dataflow.Retries](s Source[K, V, dataflow.TotalOrder, R]) Source[K, V, dataflow.NoOrder, R] {
	return Source[K, V, dataflow.NoOrder, R]{reader: s.reader, receiver: s.receiver, check: s.check, bySplit: s.bySplit, why: s.why}
}

// ErrSplits says that the splits of a source violate the rules of its constructor: see [Whole] and [BySplit].
var ErrSplits = errors.New("connect: the source has splits that it should not have")

func oneAtMost(splits []Split) error {
	if len(splits) > 1 {
		return fmt.Errorf("%w: %d of them, of a source that is connect.Whole: %s, %s", ErrSplits, len(splits), splits[0], splits[1])
	}
	return nil
}

func oneOfEachName(splits []Split) error {
	ids := make(map[string]string, len(splits))
	for _, s := range splits {
		if id, ok := ids[s.String()]; ok {
			return fmt.Errorf("%w: %s and %s have the name %s, of a source that is connect.BySplit", ErrSplits, id, s.ID, s)
		}
		ids[s.String()] = s.ID
	}
	return nil
}

// A bySplit is a reader that replaces keys with the names of splits.
type bySplit[K comparable, V any] struct{ Reader[K, V] }

func (r bySplit[K, V]) Open(ctx context.Context, s Split, after dataflow.Position) (Cursor[string, V], error) {
	c, err := r.Reader.Open(ctx, s, after)
	if err != nil {
		return nil, err
	}
	named := &namedCursor[K, V]{Cursor: c, name: s.String()}
	if asked, ok := c.(SilentCursor); ok {
		return struct {
			*namedCursor[K, V]
			SilentCursor
		}{named, asked}, nil
	}
	return named, nil
}

type namedCursor[K comparable, V any] struct {
	Cursor[K, V]
	name string
	read Batch[K, V]
}

// Next swaps columns between the reader's batch and b, so that their memory is reused.
func (c *namedCursor[K, V]) Next(ctx context.Context, b *Batch[string, V]) error {
	c.read.Reset()
	err := c.Cursor.Next(ctx, &c.read)
	for range c.read.Values {
		b.Keys = append(b.Keys, c.name)
	}
	b.Values, c.read.Values = c.read.Values, b.Values
	b.At, c.read.At = c.read.At, b.At
	b.Bad, c.read.Bad = c.read.Bad, b.Bad
	b.End, b.EndTime, b.Behind = c.read.End, c.read.EndTime, c.read.Behind
	return err
}
