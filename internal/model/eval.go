package model

// An event is something that happened to a flow: a record was taken, or a slice ran.
type event struct {
	node  int // the input from which a record was taken, if slice < 0
	key   int
	value int
	all   map[int]int // the whole content of a node, if it is recorded as a whole
	slice int
}

// An evaluator computes what a program holds from what happened to it. Its only
// memory is a cache of answers.
type evaluator struct {
	p      *Program
	events []event
	known  map[moment]Content
}

// A moment is a node and a number of events.
type moment struct{ node, at int }

func newEvaluator(p *Program, events []event) *evaluator {
	return &evaluator{p, events, make(map[moment]Content)}
}

// at returns what node i holds after the first t events. For a node inside a slice,
// event t is the run.
func (e *evaluator) at(i, t int) Content {
	if c, ok := e.known[moment{i, t}]; ok {
		return c
	}
	c := e.compute(i, t)
	e.known[moment{i, t}] = c
	return c
}

func (e *evaluator) compute(i, t int) Content {
	x := &e.p.nodes[i]
	if e.p.recorded(i) {
		return e.taken(i, t)
	}
	switch x.op.edge {
	case input, timed, looped, arranged:
		return e.taken(i, t)
	case batch:
		now, before := e.at(x.args[0], t), Content{}
		if last := e.lastRun(x.slice, t); last >= 0 {
			before = e.at(x.args[0], last)
		}
		return kinds[e.p.nodes[x.args[0]].op.out].since(now, before)
	case snapshot:
		return e.at(x.args[0], t)
	case state:
		if last := e.lastRun(x.slice, t); last >= 0 && x.keep >= 0 {
			return e.at(x.keep, last)
		}
		return x.op.eval(x.n, nil)
	case emit:
		out := Content{}
		for run := range t {
			if e.events[run].slice == x.slice {
				out = together(out, e.at(x.args[0], run))
			}
		}
		return out
	case latest:
		if last := e.lastRun(x.slice, t); last >= 0 {
			return e.at(x.args[0], last)
		}
		return x.op.eval(x.n, nil)
	}
	in := make([]Content, len(x.args))
	for a, arg := range x.args {
		in[a] = e.at(arg, t)
	}
	return x.op.eval(x.n, in)
}

// taken returns what was taken from an input.
func (e *evaluator) taken(i, t int) Content {
	c := Content{Keyed: make(map[int][]int), Entries: make(map[int]int)}
	for _, ev := range e.events[:t] {
		if ev.slice >= 0 || ev.node != i {
			continue
		}
		if e.p.nodes[i].op.shows {
			c.Entries = ev.all
			continue
		}
		switch kinds[e.p.nodes[i].op.out].shape {
		case listed:
			c.List = append(c.List, ev.value)
		case keyed:
			c.Keyed[ev.key] = append(c.Keyed[ev.key], ev.value)
		case entered:
			c.Entries[ev.key] = ev.value
		}
	}
	return c
}

// lastRun returns the index of the last run of a slice among the first t events, or
// -1.
func (e *evaluator) lastRun(slice, t int) int {
	for run := t - 1; run >= 0; run-- {
		if e.events[run].slice == slice {
			return run
		}
	}
	return -1
}

// together returns what two runs of a slice emitted.
func together(a, b Content) Content {
	out := Content{List: append(append([]int(nil), a.List...), b.List...), Keyed: make(map[int][]int), Entries: make(map[int]int)}
	for _, c := range []Content{a, b} {
		for k, vs := range c.Keyed {
			out.Keyed[k] = append(append([]int(nil), out.Keyed[k]...), vs...)
		}
		for k, v := range c.Entries {
			out.Entries[k] = v
		}
	}
	return out
}

// fed returns how much has arrived at the ends from which node i, outside all slices,
// is made. If it is the same at two moments, nothing was new in between.
func (e *evaluator) fed(i, t int) int {
	x := &e.p.nodes[i]
	if e.p.recorded(i) {
		return e.at(i, t).size()
	}
	switch x.op.edge {
	case input, timed, looped, emit:
		if x.op.shows {
			n := 0
			for _, ev := range e.events[:t] {
				if ev.slice < 0 && ev.node == i {
					n++
				}
			}
			return n
		}
		return e.at(i, t).size()
	case latest:
		n := 0
		for _, ev := range e.events[:t] {
			if ev.slice == x.slice {
				n++
			}
		}
		return n
	}
	n := 0
	for _, arg := range x.args {
		n += e.fed(arg, t)
	}
	return n
}
