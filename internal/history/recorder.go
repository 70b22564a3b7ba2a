package history

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/cbor"
	"github.com/millrace/millrace/internal/engine"
)

// A Recorder writes the steps of a graph as they are made. It has a block of steps for each
// location, which it writes when the block is full. It keeps nothing else: its memory does not
// grow, and in the steady state a step allocates nothing.
//
// It maintains: the steps of a location that are written or wait in its block are all steps
// that the location has made so far, unless the recording has failed.
type Recorder struct {
	to        io.Writer
	claimed   atomic.Bool
	graph     *engine.Graph
	locations []locationRecorder
	number    atomic.Uint64
	failed    atomic.Bool // there is an error, or the recorder is closed: steps are no longer recorded

	mu     sync.Mutex // guards the fields below; may be locked while the mu of a locationRecorder is held, never the other way round
	out    *Writer
	err    error
	closed bool
}

// A locationRecorder is a recorder's state for one location.
type locationRecorder struct {
	step Step // the current step; held by the run token, with the next two
	data []byte
	took []int // for each operator, the records that the step took so far; all 0 between steps

	mu    sync.Mutex
	block block
}

// NewRecorder returns a recorder that writes to w.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{to: w} }

// Claim reports whether the recorder now belongs to the caller's flow. It does not if another
// flow has claimed it before.
func (r *Recorder) Claim() bool { return r.claimed.CompareAndSwap(false, true) }

// Check implements [engine.FileRecorder].
func (r *Recorder) Check(g *engine.Graph) error { return Check(g) }

// Begin implements [engine.StepRecorder].
func (r *Recorder) Begin(g *engine.Graph) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.graph = g
	r.locations = make([]locationRecorder, len(g.Locations))
	for i, s := range g.Locations {
		r.locations[i].step.Location = i
		r.locations[i].took = make([]int, len(s.Ops))
	}
	var err error
	if r.out, err = NewWriter(r.to, NewHeader(g.Shapes())); err != nil {
		r.fail(err)
	}
}

// fail ends the recording. The caller holds mu.
func (r *Recorder) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.failed.Store(true)
}

// Taken implements [engine.StepRecorder].
func (r *Recorder) Taken(s *engine.Location, p *engine.Plan) {
	if r.failed.Load() {
		return
	}
	t := &r.locations[s.Number]
	t.data, t.step.Takes = t.data[:0], t.step.Takes[:0]
	t.step.Start, t.step.Fire, t.step.Origin, t.step.Now = p.Start, p.Fire, p.Origin, p.Now
	if len(p.Take) == 0 {
		return
	}
	if err := t.encode(s, p); err != nil {
		r.mu.Lock()
		r.fail(err)
		r.mu.Unlock()
	}
}

// encode appends the records that a step takes to the data. The slices of the takes are set
// after all are encoded, since the data may move.
func (t *locationRecorder) encode(s *engine.Location, p *engine.Plan) (err error) {
	at := int32(0)
	defer func() {
		if v := recover(); v != nil { // in a method of the program's types
			err = fmt.Errorf("%s: encoding a record panicked: %v", s.Ops[at], v)
		}
	}()
	single := len(p.Take) == 1
	for _, take := range p.Take {
		at = take.Op
		before := 0
		if !single {
			before = t.took[at]
			t.took[at] += take.N
		}
		begin := len(t.data)
		if t.data, err = s.Inputs[at].AppendTaken(t.data, cbor.Codec{}, before, take.N); err != nil {
			return fmt.Errorf("%s: %w", s.Ops[at], err)
		}
		t.step.Takes = append(t.step.Takes, Take{at, take.N, t.data[begin:]})
	}
	if !single {
		begin := 0
		for i := range t.step.Takes {
			take := &t.step.Takes[i]
			n := len(take.Data)
			take.Data = t.data[begin : begin+n]
			begin += n
			t.took[take.Op] = 0
		}
	}
	return nil
}

// Made implements [engine.StepRecorder].
func (r *Recorder) Made(s *engine.Location) int {
	if r.failed.Load() {
		return 0
	}
	t := &r.locations[s.Number]
	t.step.Now = cmp.Or(t.step.Now, s.Read)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step.Number = r.number.Add(1) - 1
	if t.block.add(&t.step); len(t.block.data) >= blockSize {
		r.write(t)
	}
	if cap(t.data) > mostKept {
		t.data = nil
	}
	return int(t.step.Number)
}

// mostKept is the maximum size of a buffer that is used again.
const mostKept = 1 << 20

// write writes the block of a location. The caller holds the locationRecorder's mu.
func (r *Recorder) write(t *locationRecorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.closed {
		return
	}
	if err := r.out.block(&t.block); err != nil {
		r.fail(err)
	}
	if cap(t.block.data) > mostKept {
		t.block.data, r.out.buf = nil, nil
	}
}

// Flush writes the blocks. It returns why the recording has failed, if it has.
func (r *Recorder) Flush() error {
	r.mu.Lock()
	locations := r.locations
	r.mu.Unlock()
	for i := range locations {
		t := &locations[i]
		t.mu.Lock()
		r.write(t)
		t.mu.Unlock()
	}
	return r.Err()
}

// Err returns why the recording has failed, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// errNoFlow is returned if a recorder has recorded nothing.
var errNoFlow = errors.New("history: the recorder was given to no flow that was started: set it as Options.Recorder")

// Close writes the blocks and the last frame. Later steps are not recorded.
func (r *Recorder) Close() error {
	r.mu.Lock()
	begun, closed := r.out != nil, r.closed
	r.mu.Unlock()
	switch {
	case closed:
		return r.Err()
	case !begun:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.closed = true
		r.fail(errNoFlow)
		return r.err
	}
	end := End{}
	select {
	case <-r.graph.Done():
		end.Complete = true
		if err := r.graph.Err(); err != nil {
			end.Failed = err.Error()
		}
	default:
	}
	// No step comes between the blocks written here and the number of steps.
	for i := range r.locations {
		r.locations[i].mu.Lock()
		defer r.locations[i].mu.Unlock()
	}
	for i := range r.locations {
		r.write(&r.locations[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	r.closed = true
	if r.err == nil {
		end.Steps = r.number.Load()
		if err := r.out.End(end); err != nil {
			r.fail(err)
		}
	}
	r.failed.Store(true)
	return r.err
}
