package simprop

import (
	"fmt"
	"strings"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

// Sequential is the property that a flow behaves like its model for a client that gives one command
// after the other. It tries random commands with random arguments, as far as Pre allows them, in
// every schedule of the flow. A failure shows the shortest list of commands that was found.
func Sequential[P, M any](m Model[P, M], opts ...sim.Option) gopter.Prop {
	m.check("simprop.Sequential")
	return Holds(m.sequential, m.gen(1, 1), opts...)
}

func (m Model[P, M]) check(op string) {
	engine.Given(op, m.Build, m.Init)
	if len(m.Commands) == 0 {
		engine.Misuse(op, "the model has no commands")
	}
}

// sequential returns the specification for a case of one client.
func (m Model[P, M]) sequential(c Case[P]) sim.Spec[P] {
	spec := sim.Spec[P]{Build: m.Build, Faults: c.faults}
	for i, ops := range c.clients {
		spec.Clients = append(spec.Clients, sim.Client[P]{Name: clientName(i), Do: func(ctx *sim.Ctx, p P) error {
			state := m.Init()
			var before []string
			for j, op := range ops {
				s, arg := op.of.step.(*step[P, M]), op.value.value
				var result any
				err := named(ctx, i, j, func() (err error) {
					result, err = s.do(ctx, p, arg)
					return err
				})
				switch {
				case fateUnknown(err):
					return nil
				case err != nil:
					return fmt.Errorf("%v: %w", op, err)
				}
				before = append(before, fmt.Sprintf("%v = %v", op, result))
				if err := s.post(state, arg, result); err != nil {
					return fmt.Errorf("%s: %w", strings.Join(before, ", "), err)
				}
				state = s.next(state, arg)
			}
			return nil
		}})
	}
	return spec
}

// gen generates commands for fewest to most clients. The commands of several clients may be given
// in every order that keeps each client's own order.
func (m Model[P, M]) gen(fewest, most int) gopter.Gen {
	limits := m.Limits.or()
	steps := make([]*operations[P], len(m.Commands))
	for i, c := range m.Commands {
		s := c.step()
		steps[i] = &operations[P]{name: s.name, text: argumentText, step: &s}
	}
	g := caseGen(func(params *gopter.GenParameters) Case[P] {
		n := params.Rng.Intn(2 + (limits.Operations-1)*min(params.MaxSize, 100)/100)
		c := Case[P]{make([][]operation[P], fewest+params.Rng.Intn(most-fewest+1)), drawFaults(params, limits.Faults)}
		state := m.Init()
		for range n {
			of := steps[params.Rng.Intn(len(steps))]
			s := of.step.(*step[P, M])
			arg, ok := argumentOf(s.gen(state)(params))
			if !ok || !s.pre(state, arg.value) {
				continue
			}
			client := params.Rng.Intn(len(c.clients))
			more := Case[P]{append([][]operation[P](nil), c.clients...), c.faults}
			more.clients[client] = append(more.clients[client][:len(more.clients[client]):len(more.clients[client])], operation[P]{of: of, value: arg})
			if m.allowed(more) {
				c, state = more, s.next(state, arg.value)
			}
		}
		return c.withoutIdle()
	})
	return func(params *gopter.GenParameters) *gopter.GenResult {
		r := g(params)
		r.Sieve = func(v any) bool { return m.allowed(v.(Case[P])) }
		return r
	}
}

func argumentText(_, arg any) string {
	if _, none := arg.(struct{}); none {
		return ""
	}
	return fmt.Sprintf("%v", arg)
}

// allowed reports whether Pre allows each command in every order of the commands of several
// clients.
func (m Model[P, M]) allowed(c Case[P]) bool {
	type place struct {
		at    string
		state uint64
	}
	seen := make(map[place]bool)
	var try func(at []int, state M) bool
	try = func(at []int, state M) bool {
		here := place{fmt.Sprint(at), digest.Of(state)}
		if seen[here] {
			return true
		}
		seen[here] = true
		for i, ops := range c.clients {
			if at[i] == len(ops) {
				continue
			}
			op := ops[at[i]]
			s := op.of.step.(*step[P, M])
			if !s.pre(state, op.value.value) {
				return false
			}
			next := append([]int(nil), at...)
			next[i]++
			if !try(next, s.next(state, op.value.value)) {
				return false
			}
		}
		return true
	}
	return try(make([]int, len(c.clients)), m.Init())
}
