package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
)

// A Source is a system that is read, with what can be believed of it: O is the order within a key, and R whether a record comes
// more than once. Who implements a [Reader] or [Receiver] does not choose them; the constructors do.
type Source[K comparable, V any, O dataflow.Order, R dataflow.Retries] struct {
	_        [0]func(K, V, O, R)
	reader   Reader[K, V]
	receiver Receiver[K, V]
	check    func([]Split) error // whether the splits are such as the markers need; nil if any are
	bySplit  bool                // keys are the names of splits
	why      dataflow.NonDet
}

// BySplit is a source of which each record has its split's name as its key, whatever key the reader gives it. So what is said of
// the order within a key holds for any reader. Two splits with one name are an error. One that was made again, and has the name
// of the one before, is read beside what is left of that.
//
// Splits are read at different speeds, most of all behind a restart. Where event times matter, the port is one of [SplitsInput] and
// window.StampSplits has a mark for each split: window.StampKeyed has one mark for all keys, and takes what a slower split has for
// late. If it is known how many splits there are, each can be stamped by itself, with keyedstream.Get and window.Stamp, and no reason.
func BySplit[K comparable, V any](r Reader[K, V]) Source[string, V, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	return Source[string, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{reader: bySplit[K, V]{r}, check: oneOfEachName, bySplit: true}
}

// Whole is a source with one split: a file, a slot of a database, a stream. Its elements are in one order. Two splits are an
// error. One that comes in place of another is read beside what is left of that.
func Whole[V any](r Reader[struct{}, V]) Source[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	return Source[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{reader: r, check: oneAtMost}
}

// ByKey is a source of which all records of a key are in one split. Nothing checks that: the reason says why it holds, such as
// who divides the keys of a topic between its partitions, and that their number stays as it is.
func ByKey[K comparable, V any](r Reader[K, V], why dataflow.NonDet) Source[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	return Source[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{reader: r, why: why}
}

// Unordered is a source of which nothing is said but that each record comes once.
func Unordered[K comparable, V any](r Reader[K, V]) Source[K, V, dataflow.NoOrder, dataflow.ExactlyOnce] {
	return Source[K, V, dataflow.NoOrder, dataflow.ExactlyOnce]{reader: r}
}

// Delivered is a source whose records may come again.
func Delivered[K comparable, V any](r Receiver[K, V]) Source[K, V, dataflow.NoOrder, dataflow.AtLeastOnce] {
	return Source[K, V, dataflow.NoOrder, dataflow.AtLeastOnce]{receiver: r}
}

// Weaken forgets that a source is ordered.
func Weaken[K comparable, V any, R dataflow.Retries](s Source[K, V, dataflow.TotalOrder, R]) Source[K, V, dataflow.NoOrder, R] {
	return Source[K, V, dataflow.NoOrder, R]{reader: s.reader, receiver: s.receiver, check: s.check, bySplit: s.bySplit, why: s.why}
}

// ErrSplits says that a source has splits that its constructor does not allow: see [Whole] and [BySplit].
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

// A bySplit is a reader whose keys are the names of splits.
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

// Next gives the columns of the reader's batch to b, and takes those of b for the next one.
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
