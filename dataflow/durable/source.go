package durable

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A source reads messages of a partition. A replay takes from it exactly what each step took, and the owner
// then continues with the rest.
type source struct {
	reader journal.Reader
	of     origin
	max    int
	ahead  []message
	last   uint64 // a position that the reader is known to reach
}

// An unreadableError says that records are missing or damaged.
type unreadableError string

func (e unreadableError) Error() string { return string(e) }
func (e unreadableError) Unwrap() error { return ErrDamaged }

// until returns the messages after position from up to position to. It does not wait for a missing message:
// what a step took existed before the step.
func (s *source) until(ctx context.Context, from, to uint64) (ms []message, err error) {
	for from < to {
		if s.last < to {
			if s.last, err = s.reader.Last(ctx); err != nil {
				return nil, err
			}
			if s.last < to {
				return nil, unreadableError(fmt.Sprintf("a step took records up to message %d, and the last one there is is %d", to, s.last))
			}
		}
		if len(s.ahead) == 0 {
			if s.ahead, err = s.read(ctx); err != nil {
				return nil, err
			}
		}
		m := s.ahead[0]
		if m.position > to {
			return nil, unreadableError(fmt.Sprintf("a step took records up to message %d, which is gone: the next one is %d", to, m.position))
		}
		s.ahead = s.ahead[1:]
		ms = append(ms, m)
		from = m.position
	}
	return ms, nil
}

// next waits for the next messages.
func (s *source) next(ctx context.Context) ([]message, error) {
	if len(s.ahead) > 0 {
		ms := s.ahead
		s.ahead = nil
		return ms, nil
	}
	return s.read(ctx)
}

// one waits for the next message.
func (s *source) one(ctx context.Context) (m message, err error) {
	if len(s.ahead) == 0 {
		if s.ahead, err = s.read(ctx); err != nil {
			return m, err
		}
	}
	m, s.ahead = s.ahead[0], s.ahead[1:]
	return m, nil
}

func (s *source) read(ctx context.Context) ([]message, error) {
	kept, err := s.reader.Next(ctx, s.max)
	if err != nil {
		return nil, err
	}
	ms := make([]message, len(kept))
	for i, m := range kept {
		if ms[i], err = s.of.message(m); err != nil {
			return nil, unreadableError(err.Error())
		}
	}
	return ms, nil
}

func (s *source) close() { s.reader.Close() }
