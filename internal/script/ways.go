package script

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// A way is a way to run a script.
type way struct {
	name  string
	early bool                                         // the first tick is sent before the start
	steps func(s *Stage, lines []Line) ([]step, error) // groups what is taken together
}

// A step is what happens to a flow at once, while nothing runs.
type step struct {
	direct bool // from outside, and not all at once
	do     func(ctx context.Context) (refused []string)
	wait   time.Duration
}

// ways returns all ways in which a script is run. The first is the reference.
func (s *Script) ways() []way {
	all := []way{
		{name: "", steps: s.together},
		{name: "one record at a time", steps: s.single},
		{name: "through SendBatch", steps: s.batches},
		{name: "sent before the start", early: true, steps: s.together},
	}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 0))
		all = append(all,
			way{name: "in other steps", steps: func(st *Stage, lines []Line) ([]step, error) {
				var steps []step
				for len(lines) > 0 {
					n := 1 + rng.IntN(len(lines))
					more, err := s.together(st, lines[:n])
					if err != nil {
						return nil, err
					}
					steps, lines = append(steps, more...), lines[n:]
				}
				return steps, nil
			}},
			way{name: "in another order", steps: func(st *Stage, lines []Line) ([]step, error) { return s.together(st, shuffled(st, lines, rng)) }})
	}
	return append(all, way{name: "with repeats", steps: func(st *Stage, lines []Line) ([]step, error) { return s.together(st, repeated(st, lines)) }})
}

// shuffled reorders consecutive records for an input without order. It does not reorder puts
// among which a key occurs twice, since only the first Put counts.
func shuffled(st *Stage, lines []Line, rng *rand.Rand) []Line {
	out := slices.Clone(lines)
	for i := 0; i < len(out); {
		j := i + 1
		for j < len(out) && out[j].Verb == out[i].Verb && out[j].Port == out[i].Port {
			j++
		}
		if in := st.inputs[out[i].Port]; in != nil && in.loose && out[i].Verb == in.verb && (in.verb == "send" || distinct(out[i:j])) {
			rng.Shuffle(j-i, func(a, b int) { out[i+a], out[i+b] = out[i+b], out[i+a] })
		}
		i = j
	}
	return out
}

// distinct reports whether no key is put twice.
func distinct(lines []Line) bool {
	keys := make(map[string]bool)
	for _, l := range lines {
		key, _, _ := strings.Cut(l.Rest, " ")
		keys[key] = true
	}
	return len(keys) == len(lines)
}

// repeated duplicates each record for inputs that may repeat.
func repeated(st *Stage, lines []Line) (out []Line) {
	for _, l := range lines {
		out = append(out, l)
		if in := st.inputs[l.Port]; in != nil && in.repeat && l.Verb == "send" {
			out = append(out, l)
		}
	}
	return out
}

// act returns a function that performs a line and returns what was refused.
func (s *Script) act(st *Stage, l Line) (func(ctx context.Context) (refused []string), record, error) {
	in := st.inputs[l.Port]
	if in == nil {
		var names []string
		for name := range st.inputs {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, record{}, s.errorf(l.Row, "%s: there is no input %q: the flow has %s", l.Verb, l.Port, strings.Join(names, ", "))
	}
	if l.Verb == "close" {
		return func(context.Context) []string { in.close(); return nil }, record{}, nil
	}
	if in.verb != l.Verb {
		return nil, record{}, s.errorf(l.Row, "%s: the input %s takes %s", l.Verb, l.Port, in.verb)
	}
	r, err := in.parse(l.Rest)
	if err != nil {
		return nil, record{}, s.errorf(l.Row, "%s %s: %v", l.Verb, l.Port, err)
	}
	return func(ctx context.Context) []string {
		// A port also returns the failure of the flow if its own call caused it. That failure
		// is reported for the flow, and depends on which call ran the step.
		var failed *dataflow.StepError
		if err := r.send(ctx); err != nil && ctx.Err() == nil && !errors.As(err, &failed) {
			return []string{fmt.Sprintf("%s %s %s: %v", l.Verb, l.Port, l.Rest, err)}
		}
		return nil
	}, r, nil
}

// together takes everything between two waits in one step.
func (s *Script) together(st *Stage, lines []Line) (steps []step, err error) {
	var acts []func(context.Context) []string
	flush := func() {
		if now := acts; len(now) > 0 {
			steps = append(steps, step{do: func(ctx context.Context) (refused []string) {
				for _, act := range now {
					refused = append(refused, act(ctx)...)
				}
				return refused
			}})
		}
		acts = nil
	}
	for _, l := range lines {
		if l.Verb == "wait" {
			flush()
			steps = append(steps, step{wait: l.Wait})
			continue
		}
		act, _, err := s.act(st, l)
		if err != nil {
			return nil, err
		}
		acts = append(acts, act)
	}
	flush()
	return steps, nil
}

// single takes one record after the other.
func (s *Script) single(st *Stage, lines []Line) (steps []step, err error) {
	for _, l := range lines {
		one, err := s.together(st, []Line{l})
		if err != nil {
			return nil, err
		}
		for i := range one {
			one[i].direct = true
		}
		steps = append(steps, one...)
	}
	return steps, nil
}

// batches is single, but sends consecutive records for one input as a batch.
func (s *Script) batches(st *Stage, lines []Line) (steps []step, err error) {
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && lines[n].Verb == "send" && lines[n].Port == lines[0].Port {
			n++
		}
		in := st.inputs[lines[0].Port]
		if lines[0].Verb != "send" || in == nil || in.batch == nil {
			n = 1
			one, err := s.single(st, lines[:1])
			if err != nil {
				return nil, err
			}
			steps, lines = append(steps, one...), lines[1:]
			continue
		}
		var rs []record
		for _, l := range lines[:n] {
			_, r, err := s.act(st, l)
			if err != nil {
				return nil, err
			}
			rs = append(rs, r)
		}
		group := lines[:n]
		steps = append(steps, step{direct: true, do: func(ctx context.Context) (refused []string) {
			if err := in.batch(ctx, rs); err != nil && ctx.Err() == nil {
				for _, l := range group { // a closed input refuses a batch as a whole
					refused = append(refused, fmt.Sprintf("%s %s %s: %v", l.Verb, l.Port, l.Rest, err))
				}
			}
			return refused
		}})
		lines = lines[n:]
	}
	return steps, nil
}
