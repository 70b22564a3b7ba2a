package logdriven

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine/codec"
)

// Adopt is Step with the results that the step had when it was committed, by a program that now behaves differently. Those
// results stand, since they were seen: they are kept and returned instead of the present ones. Results of operators that the
// program does not have are ignored. What the operators remember, and the calls that are requested, are the present ones.
func (ex *Executor) Adopt(now int64, records [][]byte, skip []Skip, outputs []byte) (Emission, error) {
	ex.adopts, ex.adopted = true, outputs
	defer func() { ex.adopts, ex.adopted = false, nil }()
	return ex.Step(now, records, skip)
}

// adopt keeps the adopted results instead of those of the step, of which only the requests of asynchronous calls are kept.
func (ex *Executor) adopt() (err error) {
	s, c := ex.loc, ex.loc.Graph.Settings.Codec
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
	d := &codec.Decoder{Data: ex.adopted}
	for len(d.Data) > 0 {
		number, part := int32(d.Uint()), &codec.Decoder{Data: d.Bytes()}
		if d.Err != nil {
			return d.Err
		}
		op, ok := ex.numbers.Op(number)
		if !ok {
			continue
		}
		out, err := s.Output(op)
		if err != nil {
			return err
		}
		if out.Adopt(part, ex.codecOf(op)); part.Err == nil && len(part.Data) > 0 {
			part.Fail()
		}
		if part.Err != nil {
			return fmt.Errorf("what %s gave: %w", out.Operator(), part.Err)
		}
	}
	return nil
}
