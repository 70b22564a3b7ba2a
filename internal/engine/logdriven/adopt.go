package logdriven

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine/codec"
)

// Adopt is Step with what the step gave when it was committed. That stands, since it was seen:
// it is kept and returned in the place of what the step gives now, by a program that does
// something else. What it gave at an operator that the program does not have is passed over. What
// the operators remember, and the calls that are asked for, are of now.
func (l *Executor) Adopt(now int64, records [][]byte, skip []Skip, outputs []byte) (Emission, error) {
	l.adopts, l.adopted = true, outputs
	defer func() { l.adopts, l.adopted = false, nil }()
	return l.Step(now, records, skip)
}

// adopt keeps what was given in the place of what the step gave, of which only what is asked of
// asynchronous calls is kept.
func (l *Executor) adopt() (err error) {
	s, c := l.loc, l.loc.Graph.Settings.Codec
	for _, out := range s.Ports {
		out.Forget()
	}
	for _, out := range s.Later {
		if out.Exchange() != nil {
			out.Discard()
		} else if _, err := out.Emit(nil, c); err != nil {
			return err
		}
	}
	d := &codec.Decoder{Data: l.adopted}
	for len(d.Data) > 0 {
		number, part := int32(d.Uint()), &codec.Decoder{Data: d.Bytes()}
		if d.Err != nil {
			return d.Err
		}
		op, ok := l.numbers.Op(number)
		if !ok {
			continue
		}
		out, err := s.Output(op)
		if err != nil {
			return err
		}
		if out.Adopt(part, l.codecOf(op)); part.Err == nil && len(part.Data) > 0 {
			part.Fail()
		}
		if part.Err != nil {
			return fmt.Errorf("what %s gave: %w", out.Operator(), part.Err)
		}
	}
	return nil
}
