package engine

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// A led graph has its history elsewhere: it has no goroutine and no clock of its own,
// and its inputs accept nothing. Whoever leads it takes the steps, each with the
// records and the time that the history says, makes what came out durable, and
// releases it then. So the same history gives the same steps, on any machine.

func (g *Graph) led() bool { return g.set.Led != nil }

// Led says where a led graph's asynchronous calls leave what they returned.
type Led struct {
	// Answer makes a record part of the history. It returns when that is durable, or an
	// error if the graph has ended before.
	Answer func(record []byte) error
}

// A Leader takes the steps of one location of a led graph. It belongs to one goroutine.
type Leader struct {
	site    *Site
	sources map[string]sourced // the last record of each source
	calls   []asker            // asynchronous operators
}

// A sourced is what is remembered of a record that its source may send again: whether
// it was refused has to be said again then.
type sourced struct {
	number  uint64
	refused bool
}

// An asker is an asynchronous operator of a led graph.
type asker interface {
	begin()  // make the calls that the last step asked for
	resume() // make all calls that have no answer
}

// An emitter is an outlet of a led graph, other than a cycle.
type emitter interface {
	// emit appends what the step gave, and keeps what the state of the output needs.
	emit(dst []byte, c Codec) ([]byte, error)
}

// A taker is an input or output that records of the history are for.
type taker interface {
	// take accepts a record. It reports false if the record is refused.
	takeRecord(r *Record, c Codec) (ok bool, err error)
}

// Sites returns how many locations the graph has.
func (g *Graph) Sites() int { return len(g.sites) }

// Lead returns the leader of location number i. The graph has been started.
func (g *Graph) Lead(i int) *Leader {
	s := g.sites[i]
	l := &Leader{site: s, sources: make(map[string]sourced)}
	for _, out := range s.outlets {
		if c, ok := out.(asker); ok {
			l.calls = append(l.calls, c)
		}
	}
	l.identify()
	return l
}

// An Emission is what a step gave.
type Emission struct {
	Outputs []byte   // for [Graph.Feed], empty if nothing came out
	Refused []uint64 // nonces of records that were refused
}

// Begin makes the step that runs what hangs on constants.
func (l *Leader) Begin() (Emission, error) {
	return l.step(1, func() {
		l.site.starts.run()
		l.push() // what constants gave slices and cycles
	})
}

// Step makes a step: timers that are due at now fire, records are pushed in order,
// slices are cut. Time is in nanoseconds since the history began, and never goes back.
func (l *Leader) Step(now int64, records [][]byte) (Emission, error) {
	var refused []uint64
	for i, data := range records {
		ok, nonce, err := l.accept(data)
		if err != nil {
			return Emission{}, fmt.Errorf("record %d of %d: %w", i+1, len(records), err)
		}
		if !ok && nonce != 0 {
			refused = append(refused, nonce)
		}
	}
	e, err := l.step(max(now, 1), func() {
		l.site.fireUntil(l.site.now)
		l.push()
	})
	e.Refused = refused
	return e, err
}

// accept lets one record wait for the step.
func (l *Leader) accept(data []byte) (ok bool, nonce uint64, err error) {
	s := l.site
	r, err := DecodeRecord(data)
	if err != nil {
		return false, 0, err
	}
	if r.Op < 0 || int(r.Op) >= len(s.ops) {
		return false, 0, fmt.Errorf("%w: it is for operator %d of %d", errRecord, r.Op, len(s.ops))
	}
	t, ok := s.takers[r.Op]
	if !ok {
		return false, 0, fmt.Errorf("%w: %s takes none", errRecord, s.ops[r.Op])
	}
	if r.Source != "" { // a source counts its records: one that came before is a repeat
		if last := l.sources[r.Source]; r.Number <= last.number {
			return r.Number < last.number || !last.refused, r.Nonce, nil
		}
	}
	ok, err = t.takeRecord(&r, s.g.set.Codec)
	if r.Source != "" {
		l.sources[r.Source] = sourced{r.Number, !ok}
	}
	return ok, r.Nonce, err
}

// push runs what was accepted, and what is fed back by it, until nothing is left.
func (l *Leader) push() {
	s := l.site
	for first := true; first || s.queued > 0; first = false {
		s.take()
		for _, x := range s.taken {
			x.in.pushTaken(x.n)
		}
		for _, in := range s.inrun {
			in.drop()
		}
		for _, r := range s.regions {
			if r.news {
				r.run()
			}
		}
		later := s.later[:0]
		for _, out := range s.later {
			if c, ok := out.(looper); ok {
				c.feedBack()
				continue
			}
			later = append(later, out)
		}
		s.later = later
	}
}

// A looper is a cycle: what was fed back is taken before the step ends.
type looper interface{ feedBack() }

func (l *Leader) step(now int64, f func()) (e Emission, err error) {
	s := l.site
	func() {
		defer s.guard()
		s.now = now
		f()
		s.now, s.rearm, s.completed = 0, false, true
	}()
	if err := s.g.Err(); err != nil {
		return e, err
	}
	for _, out := range s.ports {
		if e.Outputs, err = out.(emitter).emit(e.Outputs, s.g.set.Codec); err != nil {
			return e, err
		}
	}
	for _, out := range s.later {
		if e.Outputs, err = out.(emitter).emit(e.Outputs, s.g.set.Codec); err != nil {
			return e, err
		}
	}
	s.ports, s.later = s.ports[:0], s.later[:0]
	return e, nil
}

// Release makes the asynchronous calls that the last step asked for. It is called when
// the step is durable.
func (l *Leader) Release() {
	for _, c := range l.calls {
		c.begin()
	}
}

// Resume makes all asynchronous calls that have no answer. It is called once, when what
// was recorded has been gone through.
func (l *Leader) Resume() {
	for _, c := range l.calls {
		c.resume()
	}
}

// Deadline returns when the next timer is due.
func (l *Leader) Deadline() (now int64, ok bool) { return l.site.deadline() }

// A state is what an operator remembers from one step to the next.
type state interface {
	save(dst []byte, c Codec) ([]byte, error)
	load(d *decoder, c Codec)
	kind() string // with the types in it
	describe(w *describer)
}

// keeps makes x part of what is saved of op.
func (op *Op) keeps(x state) { op.states = append(op.states, x) }

// Save appends the state of the location between two steps.
func (l *Leader) Save(dst []byte) (_ []byte, err error) {
	c := l.site.g.set.Codec
	dst = binary.AppendUvarint(dst, uint64(len(l.sources)))
	for _, name := range sortedKeys(l.sources) {
		dst = appendBytes(dst, []byte(name))
		dst = binary.AppendUvarint(dst, l.sources[name].number)
		dst = append(dst, flag(l.sources[name].refused))
	}
	for _, op := range l.site.ops {
		if len(op.states) == 0 {
			continue
		}
		var part []byte
		for _, x := range op.states {
			if part, err = x.save(part, c); err != nil {
				return dst, fmt.Errorf("%s: %w", op, err)
			}
		}
		dst = binary.AppendUvarint(dst, uint64(op.index))
		dst = appendBytes(dst, part)
	}
	return dst, nil
}

// Load is the inverse of [Leader.Save], of a location that has made no step. What hangs
// on constants is run and what comes of it forgotten. If became is not nil it says which
// operator has the state of one that had a number before; it returns false for one that
// is gone.
func (l *Leader) Load(data []byte, became func(op int32) (int32, bool)) error {
	if _, err := l.Begin(); err != nil {
		return err
	}
	c := l.site.g.set.Codec
	d := &decoder{data: data}
	clear(l.sources)
	for range d.count() {
		name := string(d.bytes())
		l.sources[name] = sourced{d.uint(), d.byte() == 1}
	}
	for len(d.data) > 0 {
		i, part := int32(d.uint()), &decoder{data: d.bytes()}
		if d.err != nil {
			return fmt.Errorf("dataflow: the saved state: %w", d.err)
		}
		if became != nil {
			var ok bool
			if i, ok = became(i); !ok {
				continue
			}
		}
		if i < 0 || int(i) >= len(l.site.ops) || len(l.site.ops[i].states) == 0 {
			return fmt.Errorf("dataflow: the saved state is of operator %d, which remembers nothing", i)
		}
		op := l.site.ops[i]
		for _, x := range op.states {
			x.load(part, c)
		}
		if part.err == nil && len(part.data) > 0 {
			part.err = fmt.Errorf("%d bytes too many", len(part.data))
		}
		if part.err != nil {
			return fmt.Errorf("dataflow: the saved state of %s: %w", op, part.err)
		}
	}
	l.identify()
	return d.err
}

// Shape describes what the location's history and state depend on: its operators, how
// they hang together, and the types of what they remember. Names of types count, places
// in the source do not.
func (l *Leader) Shape() string { return l.site.shape() }

func (s *Site) shape() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.name)
	for _, op := range s.ops {
		fmt.Fprintf(&b, "%d %s", op.index, op.Name)
		for _, in := range op.ins {
			if in.site != s {
				fmt.Fprintf(&b, " %s", in.site.name)
				continue
			}
			fmt.Fprintf(&b, " %d", in.index)
		}
		for _, x := range op.states {
			fmt.Fprintf(&b, " %s", x.kind())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	ks := make([]string, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}
