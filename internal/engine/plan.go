package engine

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/engine/codec"
)

// Location returns the number of the location that made a step.
func (r *Recording) Location(step int) int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Plans[step].Location
}

// A Plan says what a step takes. It is data: the same plan gives the same step, whoever made it. There are four planners: that of
// a live graph takes whatever waits, that of a simulated one takes what the chooser says, that of a log-driven one takes what the
// history says, and a replay uses recorded plans.
type Plan struct {
	// Now is the logical time in nanoseconds since the history began, and never goes back. If it is zero, the first operator that
	// asks reads the clock of the graph's driver. A plan that fires has a time.
	Now int64
	// Origin is what the wall clock shows when Now is 0, in nanoseconds since 1970. The plan of the first step sets it for all
	// later ones.
	Origin int64
	Start  bool   // run what depends on constants, before anything else: the first step
	Fire   bool   // fire what is due at Now, in order of deadlines, before the records
	Take   []Take // records, in the order in which they are pushed
	Cut    Cut    // the slices that run if they have news
}

// A Take is a run of records of one input. When the step is made, the input has taken them, in the same order. Only in a
// recording are they in the plan.
type Take struct {
	Op      int32 // the operator of the input
	N       int
	Records any // what the input's Load accepts, or nil
}

// A Cut says which slices run if they have news.
type Cut struct {
	Some []*Region // these, and no others, if not nil
}

// CutAll cuts every slice that has news, and CutNone none.
var CutAll, CutNone = Cut{}, Cut{[]*Region{}}

// Has reports whether r runs if it has news.
func (c Cut) Has(r *Region) bool { return c.Some == nil || slices.Contains(c.Some, r) }

// A Recording is the history of a run: the plans of its steps with their records. Together with the graph it determines
// everything.
type Recording struct {
	Mu     sync.Mutex
	Plans  []RecordedPlan
	Shapes []Shape // of the locations of the graph that was recorded; set by its start
	Ended  bool    // the graph has ended
	Failed string  // why it failed, if it did
	Note   string  // what is missing from a recording that was read from a file

	OnPublished func(step, location int) // see Published

	making []Plan // by location: the plan of the step being made; held by its token
}

// A RecordedPlan is the plan of a step of one location.
type RecordedPlan struct {
	Location int // number of the location
	Plan
}

// end records that the graph has ended, because of err if that is not nil.
func (r *Recording) end(err error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Ended = true; err != nil {
		r.Failed = err.Error()
	}
}

// A StepRecorder keeps the steps of a graph that runs in production. All methods except Begin are called by the holder of the
// location's token, so calls for different locations may be concurrent.
type StepRecorder interface {
	// Begin is called once, before any step.
	Begin(g *Graph)
	// Taken is called before a step, when the inputs have taken its records.
	Taken(s *Location, p *Plan)
	// Made is called when the step was made, before it is published. If a function of the program did not return, it is called
	// before the graph fails. The time of the step is that of its plan or, if the plan has none, s.Read. Made returns the number
	// of the step.
	Made(s *Location) int
}

// A FileRecorder is a StepRecorder that writes to a file. Its methods here may be called by any goroutine.
type FileRecorder interface {
	StepRecorder
	// Check returns an error that names the first operator of a graph whose records cannot be written, and why. It returns nil
	// if there is none. It is called before Begin.
	Check(g *Graph) error

	Claim() bool  // reports whether the recorder now belongs to the caller's graph
	Flush() error // writes the steps made so far
	Err() error   // returns why the recording has failed, or nil
	Close() error // writes the steps made so far and the end of the file
}

// Begin implements [StepRecorder].
func (r *Recording) Begin(g *Graph) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Shapes, r.making = g.Shapes(), make([]Plan, len(g.Locations))
}

// Taken implements [StepRecorder].
func (r *Recording) Taken(s *Location, p *Plan) { r.making[s.Number] = s.Copy(p) }

// Made implements [StepRecorder].
func (r *Recording) Made(s *Location) int {
	p := r.making[s.Number]
	p.Now = cmp.Or(p.Now, s.Read)
	r.making[s.Number] = Plan{}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Plans = append(r.Plans, RecordedPlan{s.Number, p})
	return len(r.Plans) - 1
}

// Records are what [Input].CopyTaken returns, or [Encoded].
type Records interface {
	// Check returns why the records cannot be encoded and decoded without loss, or nil.
	Check(c codec.Codec) error
	// AppendTo appends the encoding of the records.
	AppendTo(dst []byte, c codec.Codec) ([]byte, error)
}

// Items are records of an input of elements, as a recording keeps them.
type Items[T any] []T

// Check implements [Records].
func (xs Items[T]) Check(c codec.Codec) error { return Encodable[T](c) }

// AppendTo appends the encoding of the records.
func (xs Items[T]) AppendTo(dst []byte, c codec.Codec) (_ []byte, err error) {
	for i := range xs {
		if dst, err = codec.AppendFrom(dst, c, &xs[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// KeyedItems are records of an input of entries, as a recording keeps them.
type KeyedItems[K comparable, V any] struct{ Columns[K, V] }

// Check implements [Records].
func (c *KeyedItems[K, V]) Check(by codec.Codec) error {
	if err := Encodable[K](by); err != nil {
		return err
	}
	return Encodable[V](by)
}

// AppendTo appends the encoding of the records, each key before its value.
func (c *KeyedItems[K, V]) AppendTo(dst []byte, by codec.Codec) (_ []byte, err error) {
	for i := range c.K {
		if dst, err = codec.AppendFrom(dst, by, &c.K[i]); err != nil {
			return dst, err
		}
		if dst, err = codec.AppendFrom(dst, by, &c.V[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// Record returns the key and the value of the first record.
func (c *KeyedItems[K, V]) Record() (k, v any) { return c.K[0], c.V[0] }

// Ended is the record of an ending.
type Ended struct{}

// String says what the record is, for people.
func (Ended) String() string { return "the end" }

// ends are records of an ending, as a recording keeps them.
type ends []Ended

// Check implements [Records].
func (ends) Check(codec.Codec) error { return nil }

// AppendTo appends nothing: the records have no content beyond their number.
func (ends) AppendTo(dst []byte, _ codec.Codec) ([]byte, error) { return dst, nil }

// Check implements [Input].
func (e *Ending) Check(codec.Codec) error { return nil }

// Types implements [Input].
func (e *Ending) Types() []reflect.Type { return nil }

// AppendTaken implements [Input].
func (e *Ending) AppendTaken(dst []byte, _ codec.Codec, _, _ int) ([]byte, error) { return dst, nil }

// Load implements [Input].
func (e *Ending) Load(records any) error {
	if x, ok := records.(Encoded); ok && x.N == 1 && len(x.Data) == 0 {
		records = make(ends, 1)
	}
	xs, ok := records.(ends)
	if !ok {
		return fmt.Errorf("%s takes its end, the recording has %T", e.Op, records)
	}
	e.taken += len(xs)
	e.accepted = true
	return nil
}

// Accept implements [Input]. A kept history contains no ending.
func (e *Ending) Accept(*codec.Record, codec.Codec) (bool, error) { return false, codec.ErrRecord }

// Entered implements [Input]. Load has recorded it.
func (e *Ending) Entered(int) error { return nil }

// Encoded are n records of an input that were read from a file. [Input].Load decodes them.
type Encoded struct {
	N     int
	Data  []byte
	Codec codec.Codec
}

// Check implements [Records].
func (e Encoded) Check(codec.Codec) error { return nil }

// AppendTo appends the records as they are.
func (e Encoded) AppendTo(dst []byte, _ codec.Codec) ([]byte, error) {
	return append(dst, e.Data...), nil
}

// Decode calls each for every record, with the decoder to read it from. It returns an error if the records do not fill the data.
func (e Encoded) Decode(op *Op, each func(*codec.Decoder)) error {
	d := &codec.Decoder{Data: e.Data}
	for i := range e.N {
		if each(d); d.Err != nil {
			return fmt.Errorf("record %d of %d for %s: %w", i, e.N, op, d.Err)
		}
	}
	if len(d.Data) > 0 {
		return fmt.Errorf("%d records for %s have %d bytes too many", e.N, op, len(d.Data))
	}
	return nil
}

// A Shape is what a recording depends on in one location: its operators, in the order of construction. Two programs with equal
// shapes need not be the same, since functions are not part of a shape.
type Shape struct {
	Location string    `json:"location"`
	Ops      []ShapeOp `json:"ops"`
}

// A ShapeOp is an operator of a [Shape].
type ShapeOp struct {
	Name  string   `json:"name"`            // package and function and, for a port, its name
	Pos   string   `json:"pos"`             // file:line of the call that made it; not compared
	Takes []string `json:"takes,omitempty"` // for an input: the type of its elements, or those of keys and values
	Reads []string `json:"reads,omitempty"` // numbers of the operators it reads, those of another location after its name and a slash
}

// String returns the operator as errors name it.
func (o *ShapeOp) String() string { return o.Name + " (" + o.Pos + ")" }

// text returns everything about an operator that is compared.
func (o *ShapeOp) text() string {
	text := o.Name
	if len(o.Takes) > 0 {
		text += " taking " + strings.Join(o.Takes, " and ")
	}
	if len(o.Reads) > 0 {
		text += " reading " + strings.Join(o.Reads, ", ")
	}
	return text
}

// Shapes returns the shapes of the locations.
func (g *Graph) Shapes() []Shape {
	all := make([]Shape, len(g.Locations))
	for i, s := range g.Locations {
		all[i].Location = s.Name
		all[i].Ops = make([]ShapeOp, len(s.Ops))
		for j, op := range s.Ops {
			o := &all[i].Ops[j]
			o.Name, o.Pos = op.Name, op.Pos
			if in := s.Input(op.Index); in != nil {
				for _, t := range in.Types() {
					o.Takes = append(o.Takes, t.String())
				}
			}
			for _, from := range op.Inputs() {
				if from.Loc == s {
					o.Reads = append(o.Reads, fmt.Sprint(from.Index))
				} else {
					o.Reads = append(o.Reads, fmt.Sprintf("%s/%d", from.Loc.Name, from.Index))
				}
			}
		}
	}
	return all
}

// Fits returns an error that names the first operator in which the graph differs from the one that was recorded. The graph may
// have additional operators and locations after the recorded ones.
func (r *Recording) Fits(g *Graph) error {
	is := g.Shapes()
	for i, was := range r.Shapes {
		if i >= len(is) {
			return fmt.Errorf("location %s is missing: this flow has %d locations, the recorded one had %d", was.Location, len(is), len(r.Shapes))
		}
		if is[i].Location != was.Location {
			return fmt.Errorf("location %d was %s, is %s", i, was.Location, is[i].Location)
		}
		for j := range was.Ops {
			a := &was.Ops[j]
			if j >= len(is[i].Ops) {
				return fmt.Errorf("operator %d of %s was %s, is missing", j, was.Location, a)
			}
			switch b := &is[i].Ops[j]; {
			case a.Name != b.Name:
				return fmt.Errorf("operator %d of %s was %s, is %s", j, was.Location, a, b)
			case a.text() != b.text():
				return fmt.Errorf("operator %d of %s was %s, is %s (%s)", j, was.Location, a.text(), b.text(), b.Pos)
			}
		}
	}
	return nil
}

// Len returns the number of steps.
func (r *Recording) Len() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return len(r.Plans)
}

// Copy returns a plan that can be kept, with copies of the records that it takes.
func (s *Location) Copy(p *Plan) Plan {
	kept := *p
	kept.Take = slices.Clone(p.Take)
	at := make(map[int32]int) // for each input, how many records precede
	for i := range kept.Take {
		t := &kept.Take[i]
		t.Records = s.Inputs[t.Op].CopyTaken(at[t.Op], t.N)
		at[t.Op] += t.N
	}
	return kept
}

// Published arranges for f to be called whenever a step has been published, by the goroutine that made it and before the location
// makes another one. It is set before the flow starts. Steps of different locations may be published concurrently.
func (r *Recording) Published(f func(step, location int)) { r.OnPublished = f }

// Load makes the inputs take the records of a recorded plan.
func (s *Location) Load(p *Plan) error {
	for _, t := range p.Take {
		if int(t.Op) >= len(s.Inputs) || s.Inputs[t.Op] == nil {
			return fmt.Errorf("operator %d is no input at %s", t.Op, s.Name)
		}
		if err := s.Inputs[t.Op].Load(t.Records); err != nil {
			return err
		}
	}
	return nil
}

// stepsArePlanned is not empty if senders that run a location use a plan, as those of recorded flows do, instead of the fast path
// for one record. Tests are run in both ways and have to give the same results. Only the linker sets it, with -X, so that nothing
// is compiled again for the other way. It is read once for each location, when the location is compiled.
var stepsArePlanned string
