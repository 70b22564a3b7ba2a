package logdriven

import (
	"io"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Describe writes what each operator of the location remembers, for people: at most
// most entries of each.
func (ex *Executor) Describe(w io.Writer, most int) error {
	d := &codec.Describer{W: w}
	for _, op := range ex.loc.Ops {
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

// DescribeOutputs writes the results of a step, or what the outputs of location number i keep, for people.
func DescribeOutputs(g *engine.Graph, w io.Writer, i int, n *Numbers, outputs []byte) error {
	s := g.Locations[i]
	in := &codec.Decoder{Data: outputs}
	d := &codec.Describer{W: w, Left: -1}
	for len(in.Data) > 0 {
		number, part := int32(in.Uint()), &codec.Decoder{Data: in.Bytes()}
		if in.Err != nil {
			return in.Err
		}
		op, ok := n.Op(number)
		if !ok {
			d.Print("%s, which the program does not have: %d bytes\n", n.name(&codec.Record{Op: number}), len(part.Data))
			continue
		}
		out, err := s.Output(op)
		if err != nil {
			return err
		}
		d.Print("%s\n", s.Ops[op])
		if out.DescribeFed(part, g.Settings.Codec, d); part.Err != nil {
			return part.Err
		}
	}
	return d.Err
}
