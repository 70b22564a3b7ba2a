package durable

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A source is a reader from which a replay takes exactly what each step took, and that
// goes on with what is left.
type source struct {
	reader journal.Reader
	max    int
	ahead  []journal.Message
	last   uint64 // a position that the reader is known to come to
}

// until returns the records of the messages after position from up to position to. It does
// not wait for a message that is not there: what a step took was there before the step.
func (s *source) until(ctx context.Context, from, to uint64) (records [][]byte, err error) {
	for from < to {
		if s.last < to {
			if s.last, err = s.reader.Last(ctx); err != nil {
				return nil, err
			}
			if s.last < to {
				return nil, fmt.Errorf("%w: a step took records up to message %d, and the last one there is is %d", ErrDamaged, to, s.last)
			}
		}
		if len(s.ahead) == 0 {
			if s.ahead, err = s.reader.Next(ctx, s.max); err != nil {
				return nil, err
			}
		}
		m := s.ahead[0]
		if m.Position > to {
			return nil, fmt.Errorf("%w: a step took records up to message %d, which is gone: the next one is %d", ErrDamaged, to, m.Position)
		}
		s.ahead = s.ahead[1:]
		records = append(records, m.Records...)
		from = m.Position
	}
	return records, nil
}

func (s *source) Next(ctx context.Context, max int) ([]journal.Message, error) {
	if len(s.ahead) > 0 {
		ms := s.ahead
		s.ahead = nil
		return ms, nil
	}
	return s.reader.Next(ctx, max)
}

func (s *source) Last(ctx context.Context) (uint64, error) { return s.reader.Last(ctx) }
func (s *source) Close()                                   { s.reader.Close() }
