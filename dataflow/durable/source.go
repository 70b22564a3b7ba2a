package durable

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/journal"
)

// A source is a reader from which a replay takes exactly what each step took, and that
// goes on with what is left.
type source struct {
	reader journal.Reader
	max    int
	ahead  []journal.Message
}

// until returns the records of the messages after position from up to position to.
func (s *source) until(ctx context.Context, from, to uint64) (records [][]byte, err error) {
	for from < to {
		if len(s.ahead) == 0 {
			if s.ahead, err = s.reader.Next(ctx, s.max); err != nil {
				return nil, err
			}
		}
		m := s.ahead[0]
		if m.Position > to {
			return nil, fmt.Errorf("durable: the history has a step that took message %d, which is missing", to)
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
