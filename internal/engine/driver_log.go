package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A log-driven graph has its history elsewhere: it has no goroutine and no clock of its
// own, and its inputs accept nothing. Whoever leads it takes the steps, each with the
// records and the time that the history says, makes what came out durable, and
// releases it then. So the same history gives the same steps, on any machine.
type logDriven struct{ elsewhereRun }

// LogDriven makes an empty graph one whose steps are made by whoever has its [Leader].
//
// Answer makes the answer of an asynchronous call part of the history. It returns when that
// is durable, or an error if the graph has ended before. It may be nil if no call is made.
func (g *Graph) LogDriven(codec Codec, answer func(record []byte) error) {
	if answer == nil {
		answer = func([]byte) error { return errors.New("dataflow: nobody keeps the answers of this flow") }
	}
	g.driver, g.set.Codec, g.set.Answer = &logDriven{}, codec, answer
}

func (*logDriven) now(*Site) int64 {
	panic("millrace: internal error: a step of a history has no time: please report it")
}

func (*logDriven) admit(ctx context.Context, in *door) (admission, error) { return in.room(ctx) }

// A Leader takes the steps of one location of a led graph. It belongs to one goroutine.
type Leader struct {
	site    *Site
	sources map[string]sourced // the last record of each source
	calls   []calling          // asynchronous operators
}

// A sourced is what is remembered of a record that its source may send again: whether
// it was refused has to be said again then.
type sourced struct {
	number  uint64
	refused bool
}

// Sites returns how many locations the graph has.
func (g *Graph) Sites() int { return len(g.sites) }

// Lead returns the leader of location number i. The graph has been started.
func (g *Graph) Lead(i int) *Leader {
	s := g.sites[i]
	l := &Leader{site: s, sources: make(map[string]sourced)}
	for _, out := range s.outlets {
		if c, ok := out.(calling); ok {
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
func (l *Leader) Begin() (Emission, error) { return l.make(&Plan{Now: 1, Start: true}) }

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
	e, err := l.make(&Plan{Now: max(now, 1), Fire: true, Take: l.taken()})
	e.Refused = refused
	return e, err
}

// taken has the inputs take what was accepted.
func (l *Leader) taken() []Take {
	s := l.site
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(nil)
}

// make makes the step of a plan, and steps with what is fed back by it until nothing is
// left. It returns what all of them gave.
func (l *Leader) make(p *Plan) (e Emission, err error) {
	s := l.site
	for more := true; more; {
		if !s.step(p) {
			return e, s.g.Err()
		}
		s.later = slices.DeleteFunc(s.later, func(x delivery) bool {
			if x.loops() {
				x.deliver()
			}
			return x.loops()
		})
		p = &Plan{Now: p.Now, Take: l.taken()}
		more = len(p.Take) > 0
	}
	for _, out := range s.ports {
		if e.Outputs, err = out.emit(e.Outputs, s.g.set.Codec); err != nil {
			return e, err
		}
	}
	for _, out := range s.later {
		if e.Outputs, err = out.emit(e.Outputs, s.g.set.Codec); err != nil {
			return e, err
		}
	}
	s.ports, s.later = s.ports[:0], s.later[:0]
	return e, nil
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
	take, err := s.recipient(&r)
	if err != nil {
		return false, 0, err
	}
	if r.Source != "" { // a source counts its records: one that came before is a repeat
		if last := l.sources[r.Source]; r.Number <= last.number {
			return r.Number < last.number || !last.refused, r.Nonce, nil
		}
	}
	ok, err = take(&r, s.g.set.Codec)
	if r.Source != "" {
		l.sources[r.Source] = sourced{r.Number, !ok}
	}
	return ok, r.Nonce, err
}

// recipient returns what a record is for: an input, or the output that somebody has read.
func (s *Site) recipient(r *Record) (func(*Record, Codec) (bool, error), error) {
	if r.Kind == kindRead || r.Kind == kindTaken {
		if out, err := s.output(r.Op); err == nil {
			return out.acknowledge, nil
		}
	} else if in := s.input(r.Op); in != nil {
		return in.accept, nil
	}
	return nil, fmt.Errorf("%w: %s takes none of kind %d", errRecord, s.ops[r.Op], r.Kind)
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

// linkCount is the source under which the state says how many links there ever were.
const linkCount = "\x00links"

// unsent returns what the location has for others.
func (l *Leader) unsent() (all []unsent) {
	if !l.site.g.Kept() {
		return nil
	}
	for _, out := range l.site.outlets {
		if u, ok := out.(unsent); ok {
			all = append(all, u)
		}
	}
	return all
}

// Moved returns what is for other locations and was not returned before, of each link in
// order. It is called when the steps that gave it are durable. After a restore it is all
// that is not known to be sent.
func (l *Leader) Moved() (all []Moved) {
	for _, u := range l.unsent() {
		all = u.moved(all)
	}
	return all
}

// identify gives the links numbers that none of the history had before: a link that a
// changed program has for the first time must not be taken for another one, whose
// records the other location knows.
func (l *Leader) identify() {
	last := l.sources[linkCount].number
	for _, u := range l.unsent() {
		last = u.identify(last)
	}
	if last > 0 {
		l.sources[linkCount] = sourced{number: last}
	}
}
