package logdriven

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Describe writes what each operator of the location remembers, for people: at most
// most entries of each.
func (l *Executor) Describe(w io.Writer, most int) error {
	d := &codec.Describer{W: w}
	for _, op := range l.loc.Ops {
		for _, x := range op.States {
			d.Print("%s: %s\n", op, x.Kind())
			d.Left, d.More = most, 0
			if x.Describe(d); d.More > 0 {
				d.Print("    and %d more\n", d.More)
			}
		}
	}
	return d.Err
}

// DescribeOutputs writes what a step gave, or what the outputs of location number i keep,
// for people.
func DescribeOutputs(g *engine.Graph, w io.Writer, i int, outputs []byte) error {
	s := g.Locations[i]
	in := &codec.Decoder{Data: outputs}
	d := &codec.Describer{W: w, Left: -1}
	for len(in.Data) > 0 {
		op := int32(in.Uint())
		out, err := s.Output(op)
		if err != nil {
			return err
		}
		d.Print("%s\n", s.Ops[op])
		if out.DescribeFed(in, g.Settings.Codec, d); in.Err != nil {
			return in.Err
		}
	}
	return d.Err
}

// DescribeRecord writes a record of location number i for people.
func DescribeRecord(g *engine.Graph, w io.Writer, i int, data []byte) error {
	s := g.Locations[i]
	r, err := codec.DecodeRecord(data)
	if err != nil {
		return err
	}
	if r.Op < 0 || int(r.Op) >= len(s.Ops) {
		return fmt.Errorf("%w: it is for operator %d of %d", codec.ErrRecord, r.Op, len(s.Ops))
	}
	what := [...]string{"record", "answer", "taken", "read", "question"}[min(r.Kind, codec.KindHas)]
	from := ""
	if n, sender, ok := r.NumberOf(); ok && sender == "" {
		from = fmt.Sprintf(" number %d", n)
	} else if ok {
		from = fmt.Sprintf(" number %d of %q", n, sender)
	} else if r.Source != "" {
		from = fmt.Sprintf(" number %d of %q", r.Number, r.Source)
	}
	_, err = fmt.Fprintf(w, "%s of %s%s: key of %d bytes, value of %d\n", what, s.Ops[r.Op], from, len(r.Key), len(r.Value))
	return err
}
