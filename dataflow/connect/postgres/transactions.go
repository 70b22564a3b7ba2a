package postgres

import (
	"context"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// Transactions returns a reader that returns the changes of each transaction together, in the order of commits, for
// [connect.Whole]. A flow sees all of a transaction or nothing. Transactions without changes of the publication are skipped. A
// whole transaction is in memory at once, and is one record of the flow's history, whose size is limited. Each row of a snapshot
// is separate.
func Transactions(s Slot) connect.Reader[struct{}, []Change] {
	return transactionsReader{Changes(s)}
}

type transactionsReader struct {
	connect.Reader[struct{}, Change]
}

func (r transactionsReader) Open(ctx context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[struct{}, []Change], error) {
	c, err := r.Reader.Open(ctx, s, after)
	if err != nil {
		return nil, err
	}
	return &transactions{Cursor: c}, nil
}

// transactions collects changes until their transaction has ended. A transaction has the position of its last change. Reading
// after that position returns the next transaction. Reading from an earlier position returns the whole transaction, since no
// batch ends within one.
type transactions struct {
	connect.Cursor[struct{}, Change]
	read connect.Batch[struct{}, Change]
	open []Change
	at   dataflow.Position // of the last change in open
}

func (c *transactions) Next(ctx context.Context, b *connect.Batch[struct{}, []Change]) error {
	c.read.Reset()
	err := c.Cursor.Next(ctx, &c.read)
	for i, x := range c.read.Values {
		if at := c.read.At[i]; len(c.open) > 0 && (at.Major != c.at.Major || at.Major == 0) { // it is zero in a snapshot
			c.give(b)
		}
		c.open, c.at = append(c.open, x), c.read.At[i]
	}
	if end := c.read.End; len(c.open) > 0 && (c.at.Major == 0 || end.Minor == 0 && end.After(c.at)) {
		c.give(b)
	}
	if len(c.open) == 0 && c.read.End.After(b.End) {
		b.End = c.read.End
	}
	b.EndTime, b.Behind = c.read.EndTime, c.read.Behind
	return err
}

func (c *transactions) give(b *connect.Batch[struct{}, []Change]) {
	b.Add(struct{}{}, c.open, c.at)
	c.open = nil
}
