package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// refusals are the records of one split that the flow refuses, because they are too large for its log or their key cannot be a
// key. Such a record would be refused again whenever it is read. So it is a dead letter, like one that cannot be decoded.
type refusals struct {
	most int // how many may come in a row; none if there is nowhere for dead letters
	row  int
}

func (o *Options) refusals() refusals {
	if o.DeadLetters == nil {
		return refusals{}
	}
	return refusals{most: o.MostBad}
}

// sendAll sends a batch without the records that the flow refuses, and returns letters for those. The error is that of the first
// other failure.
func (in *input[K, V]) sendAll(ctx context.Context, split string, b *Batch[K, V], r *refusals) (letters []Poison, err error) {
	for rest := *b; len(rest.Values) > 0; {
		n, err := in.send(ctx, split, &rest)
		if err == nil {
			r.row = 0
			break
		}
		i := refusedAt(n, err)
		if i < 0 {
			return letters, sent(err)
		}
		if before := rest.slice(n, i); len(before.Values) > 0 { // a bad key keeps out the whole batch
			more, err := in.sendAll(ctx, split, &before, r)
			if letters = append(letters, more...); err != nil {
				return letters, err
			}
		}
		if i > 0 {
			r.row = 0
		}
		if r.row++; r.row > r.most {
			if r.most > 0 {
				err = fmt.Errorf("%d records in a row are refused: %w", r.row, err)
			}
			return letters, sent(err)
		}
		p := Poison{Split: split, Cause: err.Error()}
		if len(rest.At) > 0 {
			p.At = rest.At[i]
		}
		letters = append(letters, p)
		rest = rest.slice(i+1, len(rest.Values))
	}
	return letters, nil
}

// refusedAt returns the index of the record that an error is about, or -1 if it is about none. n is how many of the first were
// accepted.
func refusedAt(n int, err error) int {
	var key *dataflow.KeyError
	switch {
	case errors.As(err, &key):
		return max(n, key.Index) // the index is -1 for a key that was sent alone
	case errors.Is(err, journal.ErrTooLarge):
		return n
	}
	return -1
}

// slice returns the records from one index to before another.
func (b *Batch[K, V]) slice(from, to int) Batch[K, V] {
	part := Batch[K, V]{Keys: b.Keys[from:to], Values: b.Values[from:to]}
	if len(b.At) > 0 {
		part.At = b.At[from:to]
	}
	return part
}
