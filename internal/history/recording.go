package history

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/millrace/millrace/internal/cbor"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Check returns an error that names the first operator of a graph whose records cannot be
// written to a file, and why. It returns nil if there is none.
func Check(g *engine.Graph) error {
	for _, s := range g.Locations {
		for _, in := range s.Inputs {
			if in == nil {
				continue
			}
			if err := in.Check(cbor.Codec{}); err != nil {
				return fmt.Errorf("%s: %w", in.Base().Op, err)
			}
		}
	}
	return nil
}

// Save writes a recording and returns the number of bytes written. The flow may run in the
// meantime: the file ends with the last step that was made when Save was called.
func Save(r *engine.Recording, w io.Writer) (int64, error) {
	r.Mu.Lock()
	plans, shapes := r.Plans[:len(r.Plans):len(r.Plans)], r.Shapes
	end := End{Steps: uint64(len(plans)), Complete: r.Ended, Failed: r.Failed}
	r.Mu.Unlock()
	if err := fit(plans, shapes); err != nil {
		return 0, err
	}
	out, err := NewWriter(w, NewHeader(shapes))
	if err != nil {
		return out.Written(), err
	}
	blocks := make([]block, len(shapes))
	var data []byte
	for i := range plans {
		p := &plans[i]
		s := Step{Number: uint64(i), Location: p.Location, Start: p.Start, Origin: p.Origin, Fire: p.Fire, Now: p.Now}
		data = data[:0]
		ends := make([]int, len(p.Take))
		for j, t := range p.Take {
			if data, err = encode(func() ([]byte, error) { return t.Records.(engine.Records).AppendTo(data, cbor.Codec{}) }); err != nil {
				return out.Written(), fmt.Errorf("step %d: %s: %w", i, &shapes[p.Location].Ops[t.Op], err)
			}
			ends[j] = len(data)
		}
		begin := 0
		for j, t := range p.Take {
			s.Takes = append(s.Takes, Take{t.Op, t.N, data[begin:ends[j]]})
			begin = ends[j]
		}
		b := &blocks[p.Location]
		if b.add(&s); len(b.data) >= blockSize {
			if err := out.block(b); err != nil {
				return out.Written(), err
			}
		}
	}
	for i := range blocks {
		if err := out.block(&blocks[i]); err != nil {
			return out.Written(), err
		}
	}
	err = out.End(end)
	return out.Written(), err
}

// errTwoFlows is returned if steps do not belong to the flow whose operators are known.
var errTwoFlows = errors.New("the recording was given to two flows: make one for each")

// fit returns an error if steps cannot be written.
func fit(plans []engine.RecordedPlan, shapes []engine.Shape) error {
	checked := make(map[[2]int]bool)
	for i := range plans {
		at := plans[i].Location
		if at >= len(shapes) {
			return errTwoFlows
		}
		for _, t := range plans[i].Take {
			if int(t.Op) >= len(shapes[at].Ops) {
				return errTwoFlows
			}
			key := [2]int{at, int(t.Op)}
			if checked[key] {
				continue
			}
			checked[key] = true
			if err := t.Records.(engine.Records).Check(cbor.Codec{}); err != nil {
				return fmt.Errorf("%s: %w", &shapes[at].Ops[t.Op], err)
			}
		}
	}
	return nil
}

// encode calls f, which calls methods of the program's types. It returns a panic of f as an
// error.
func encode(f func() ([]byte, error)) (dst []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("encoding a record panicked: %v", p)
		}
	}()
	return f()
}

// Load reads a file into an empty recording.
func Load(r io.Reader, into *engine.Recording) error {
	in, err := NewReader(r)
	if err != nil {
		return err
	}
	type numbered struct {
		number uint64
		engine.RecordedPlan
	}
	var all []numbered
	if err := in.All(func(s *Step) error {
		p := engine.RecordedPlan{Location: s.Location, Plan: engine.Plan{Now: s.Now, Origin: s.Origin, Start: s.Start, Fire: s.Fire}}
		for _, t := range s.Takes {
			if int(t.Op) >= len(in.header.Locations[s.Location].Ops) {
				return in.bad("step %d takes of operator %d, and %s has %d", s.Number, t.Op, in.header.Locations[s.Location].Location, len(in.header.Locations[s.Location].Ops))
			}
			p.Take = append(p.Take, engine.Take{Op: t.Op, N: t.N, Records: engine.Encoded{N: t.N, Data: t.Data, Codec: codec.Codec(cbor.Codec{})}})
		}
		all = append(all, numbered{s.Number, p})
		return nil
	}); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b numbered) int {
		switch {
		case a.number < b.number:
			return -1
		case a.number > b.number:
			return 1
		}
		return 0
	})
	into.Mu.Lock()
	defer into.Mu.Unlock()
	into.Plans = make([]engine.RecordedPlan, len(all))
	for i := range all {
		into.Plans[i] = all[i].RecordedPlan
	}
	into.Shapes, into.Note = in.header.Locations, in.note
	if in.end != nil {
		into.Ended, into.Failed = in.end.Complete, in.end.Failed
	}
	return nil
}
