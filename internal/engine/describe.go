package engine

import (
	"fmt"
	"io"
)

// Describe writes what each operator of the location remembers, for people: at most
// most entries of each.
func (l *Leader) Describe(w io.Writer, most int) error {
	d := &describer{w: w}
	for _, op := range l.site.ops {
		for _, x := range op.states {
			d.print("%s: %s\n", op, x.kind())
			d.left, d.more = most, 0
			if x.describe(d); d.more > 0 {
				d.print("    and %d more\n", d.more)
			}
		}
	}
	return d.err
}

// A describer writes entries, so many and no more.
type describer struct {
	w          io.Writer
	left, more int
	err        error
}

func (d *describer) entry(format string, args ...any) {
	if d.left == 0 {
		d.more++
		return
	}
	d.left--
	for i, v := range args {
		args[i] = shown{v}
	}
	d.print("    "+format+"\n", args...)
}

func (d *describer) print(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}

// DescribeOutputs writes what a step gave, or what the outputs of location number i keep,
// for people.
func (g *Graph) DescribeOutputs(w io.Writer, i int, outputs []byte) error {
	s := g.sites[i]
	in := &decoder{data: outputs}
	d := &describer{w: w, left: -1}
	for len(in.data) > 0 {
		op := int32(in.uint())
		out, err := s.output(op)
		if err != nil {
			return err
		}
		d.print("%s\n", s.ops[op])
		if out.describeFed(in, g.set.Codec, d); in.err != nil {
			return in.err
		}
	}
	return d.err
}

func (out *Outlet[T]) describeFed(in *decoder, c Codec, d *describer) {
	first := in.uint()
	for i := range in.count() {
		d.entry("%d: %+v", first+uint64(i), decodeValue[T](in, c))
	}
}

func (out *KOutlet[K, V]) describeFed(in *decoder, c Codec, d *describer) {
	for range in.count() {
		k := decodeValue[K](in, c)
		d.entry("%v: %+v", k, decodeValue[V](in, c))
	}
}

func (out *CellOutlet[T]) describeFed(in *decoder, c Codec, d *describer) {
	if in.byte() == 1 {
		d.entry("%+v", decodeValue[T](in, c))
	} else {
		d.entry("nothing")
	}
}

// DescribeRecord writes a record of location number i for people.
func (g *Graph) DescribeRecord(w io.Writer, i int, data []byte) error {
	s := g.sites[i]
	r, err := DecodeRecord(data)
	if err != nil {
		return err
	}
	if r.Op < 0 || int(r.Op) >= len(s.ops) {
		return fmt.Errorf("%w: it is for operator %d of %d", errRecord, r.Op, len(s.ops))
	}
	what := [...]string{"record", "answer", "taken", "read", "question"}[min(r.Kind, kindHas)]
	from := ""
	if n, sender, ok := r.numberOf(); ok && sender == "" {
		from = fmt.Sprintf(" number %d", n)
	} else if ok {
		from = fmt.Sprintf(" number %d of %q", n, sender)
	} else if r.Source != "" {
		from = fmt.Sprintf(" number %d of %q", r.Number, r.Source)
	}
	_, err = fmt.Fprintf(w, "%s of %s%s: key of %d bytes, value of %d\n", what, s.ops[r.Op], from, len(r.Key), len(r.Value))
	return err
}
