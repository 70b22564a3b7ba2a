package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A script is a program and what goroutines do to it in production.
type script struct {
	p       *Program
	bubble  bool // run in a synctest bubble, so that timers fire while records arrive
	procs   int  // GOMAXPROCS
	opts    dataflow.Options
	senders [][]send
	polls   [][]poll
	stall   int  // in a bubble, every stall-th call of a function takes hours; 0 for none
	spin    int  // the most iterations for which functions and goroutines spin
	bulk    bool // add an output of a value that is slow to copy
	calls   int  // node of fixed entries whose extra calls read the outputs, or -1
	moves   int  // node of a stream that is sent to another location, which reads the outputs; or -1
	ends    bool // only nodes that no other node reads have outputs, so that more can wait in the simulator
}

// A send is one or more records for one input. Several records are sent in one call if the
// input accepts batches.
type send struct {
	records []Record
	pause   pause
}

// A poll awaits an entry of an output if await is set. It then reads every output once, or
// two outputs in turn.
type poll struct {
	port  int
	other int
	times int // how often the two outputs are read; 0 to read every output once
	key   int
	await bool
	pause pause
}

// A pause is what a goroutine does before it continues.
type pause struct {
	yields int
	spins  int
	sleep  time.Duration // in a bubble
}

func (w pause) take(bubble bool) {
	for range w.yields {
		runtime.Gosched()
	}
	spun(w.spins)
	if bubble && w.sleep > 0 {
		slept(w.sleep)
	}
}

var sink atomic.Uint64

// spun takes time that depends only on n.
func spun(n int) {
	x := uint64(n)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	if x == 1 {
		sink.Add(1)
	}
}

// drawScript makes the script of flow number n.
func drawScript(rng *rand.Rand, n int) *script {
	want := ""
	if rng.IntN(3) == 0 {
		want = []string{"keyedsingleton.After", "keyedsingleton.AfterEach", "dataflow.Interval", "dataflow.Cycle"}[rng.IntN(4)]
	}
	p, _ := MakeWith(rng, 3+n%14, want)
	s := &script{p: p, procs: 1 << rng.IntN(2), calls: -1, moves: -1}
	s.bubble = p.hasTimers() || rng.IntN(4) == 0
	s.spin = []int{0, 50, 2000}[rng.IntN(3)]
	s.opts = dataflow.Options{Queue: []int{1, 3, 8, 4096}[rng.IntN(4)], Buffer: []int{1, 4, 4096}[rng.IntN(3)]}
	s.bulk = s.procs > 1 && !s.bubble && rng.IntN(3) == 0
	if s.bubble && rng.IntN(2) == 0 {
		s.stall = 1 + rng.IntN(6)
	}
	for i := range p.nodes {
		if p.lives(i) >= 0 {
			continue
		}
		s.ends = s.ends || n%2 == 0 && !read(p, i)
		switch p.nodes[i].op.out {
		case reflect.TypeFor[fixed]():
			if s.calls < 0 || rng.IntN(2) == 0 {
				s.calls = i
			}
		case reflect.TypeFor[stream]():
			if s.moves < 0 || rng.IntN(2) == 0 {
				s.moves = i
			}
		}
	}
	if rng.IntN(3) == 0 {
		s.calls = -1
	}
	if rng.IntN(3) > 0 {
		s.moves = -1
	}
	rest := func() pause {
		w := pause{yields: rng.IntN(4) / 2}
		if s.spin > 0 {
			w.spins = rng.IntN(s.spin)
		}
		if rng.IntN(3) == 0 {
			w.sleep = time.Duration(rng.IntN(25)) * time.Hour / 2
		}
		return w
	}
	id, marked, inputs := 0, rng.IntN(4) > 0, p.inputs()
	most := 6
	if p.small() {
		most = 12
	}
	s.senders = make([][]send, 1+rng.IntN(4))
	for i := range s.senders {
		for range 1 + rng.IntN(most) {
			x := send{pause: rest()}
			node, k := inputs[rng.IntN(len(inputs))], rng.IntN(4)
			entries := kinds[p.nodes[node].op.out].shape == entered
			for range 1 + rng.IntN(4)*rng.IntN(2) {
				r := Record{node, k, rng.IntN(12)}
				if entries {
					r.key = rng.IntN(12)
				} else if n := len(s.senders); k+n < 4 && rng.IntN(2) == 0 {
					r.key = k + n // which has the same sender
				}
				if marked {
					id++
					r.value += 12 * id
				}
				x.records = append(x.records, r)
			}
			by := p.sender(node, k, i, len(s.senders))
			s.senders[by] = append(s.senders[by], x)
		}
	}
	for range 1 + rng.IntN(3) {
		var all []poll
		for range 5 + rng.IntN(60) {
			x := poll{port: rng.Int(), other: rng.Int(), key: rng.IntN(12), await: rng.IntN(12) == 0}
			if rng.IntN(2) == 0 {
				x.times = rng.IntN(20)
			}
			if rng.IntN(8) == 0 {
				x.pause = rest()
			}
			all = append(all, x)
		}
		s.polls = append(s.polls, all)
	}
	return s
}

// sender returns which of n senders sends a record to an input. If the input allows one
// sender, or one for each key, it returns that sender, and otherwise would.
func (p *Program) sender(node, key, would, n int) int {
	switch p.nodes[node].op.name {
	case "dataflow.Input":
		return node % n
	case "keyedstream.Input", "dataflow.SenderInput":
		return (node + key) % n
	}
	return would
}

// String returns the script as failures print it.
func (s *script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %d processors, bubble: %v, queue %d, buffer %d, a stall each %d records, spins up to %d\n", s.p, s.procs, s.bubble, s.opts.Queue, s.opts.Buffer, s.stall, s.spin)
	for i, all := range s.senders {
		fmt.Fprintf(&b, "  sender %d:", i)
		for _, x := range all {
			fmt.Fprintf(&b, " [%v]", History(x.records))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// hasTimers reports whether the output of the program depends on time.
func (p *Program) hasTimers() bool {
	return slices.ContainsFunc(p.nodes, func(x node) bool { return x.op.edge == timed && !x.op.concurrent })
}

// isOpen reports whether the program does not end by itself, because an interval stays open
// like an input.
func (p *Program) isOpen() bool {
	return p.Ticks()
}

// small reports whether no operator of the program multiplies its records.
func (p *Program) small() bool {
	return !slices.ContainsFunc(p.nodes, func(x node) bool { return x.growth > 2 })
}

func (p *Program) has(e edge) bool {
	return slices.ContainsFunc(p.nodes, func(x node) bool { return x.op.edge == e })
}

// A flowing is a script's program built as a flow, with its outputs.
type flowing struct {
	*builder
	s     *script
	flow  *dataflow.Flow
	reads []*reading
	ops   opsUntil
	asked []int      // keys of extra calls, in order; guarded by the run token
	moved int        // number of elements sent to another location; guarded by the run token
	moves *engine.Op // the operator that receives them there

	// bulk reads the output of a large value, or is nil. While it reads, a publication waits
	// for the lock of that output, so that partial publications last longer and are seen more
	// often.
	bulk func()

	// in production, otherwise nil
	inside  func()      // called within a step
	called  func(k int) // called by an extra call
	arrived func(n int) // called by another location, with how many came before
}

// raise builds the script's program.
func raise(ctx context.Context, s *script, flow *dataflow.Flow) *flowing {
	f := &flowing{s: s, flow: flow}
	f.builder = buildAsking(ctx, s.p, flow, func(i int) bool {
		f.ops = append(f.ops, len(graphOf(flow).Ops(0)))
		return s.p.lives(i) >= 0
	}, nil)
	if s.bulk {
		f.addBulk()
	}
	for i := range s.p.nodes {
		if s.p.lives(i) < 0 && !(s.ends && read(s.p, i)) {
			f.reads = append(f.reads, f.reading(i))
		}
	}
	spy := func() {
		if f.inside != nil {
			f.inside()
		}
	}
	for _, tick := range f.ticks {
		begin, _ := slice.State(tick, 0)
		singleton.Map(begin, func(int) int { spy(); return 0 })
	}
	for i := range s.p.nodes {
		if s.p.nodes[i].op.edge != input {
			continue
		}
		switch x := f.built[i].(type) {
		case stream:
			dataflow.Inspect(x, func(int) { spy() })
		case fixed:
			keyedsingleton.Inspect(x, func(int) { spy() })
		}
	}
	if s.calls >= 0 {
		entries := keyedsingleton.InspectWithKey(f.built[s.calls].(fixed), func(k, _ int) { f.asked = append(f.asked, k) })
		keys := keyedsingleton.MapWithKey(entries, func(k, _ int) int { return k })
		answers := keyedsingleton.MapAsync(keys, func(_ context.Context, k int) int {
			if f.called != nil {
				f.called(k)
			}
			return k
		}, keyedsingleton.AsyncOptions{Concurrency: 1 + s.calls%3})
		keyedsingleton.Inspect(answers, func(int) {})
	}
	if s.moves >= 0 {
		sent := dataflow.Inspect(f.built[s.moves].(stream), func(int) { f.moved++ })
		n := 0
		arriving := dataflow.Send(sent, f.other())
		for site := range graphOf(flow).NumLocations() { // the receiving operator is the last one of its location
			if ops := graphOf(flow).Ops(site); site > 0 && ops[len(ops)-1].Name == "dataflow.Send" {
				f.moves = ops[len(ops)-1]
			}
		}
		dataflow.Inspect(arriving, func(int) {
			if f.arrived != nil {
				f.arrived(n)
			}
			n++
		})
	}
	return f
}

// large is a value that is slow to copy.
type large [1 << 14]int

// addBulk adds an output of a large value, derived from an input. It is published after the
// outputs of other nodes that derive from that input, and before the output of the input itself.
func (f *flowing) addBulk() {
	for _, i := range f.p.inputs() {
		var count valueOf[here, bounds.MonotonicValue]
		switch x := f.built[i].(type) {
		case stream:
			count = dataflow.Count(x)
		case fixed:
			count = keyedsingleton.KeyCount(x)
		default:
			continue
		}
		out := singleton.Output(singleton.Map(count, func(n int) large { return large{n} }), "bulk")
		f.bulk = func() { out.Latest() }
		return
	}
}
