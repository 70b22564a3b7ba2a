package simprop

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/engine"
)

// Holds is the property that a specification holds in every schedule of each value that g
// generates, which is a [Case] or any other value from which spec makes clients. It checks each
// specification with sim.Check and the options. It gives a case up after 10,000 executions unless
// an option says otherwise; such a case is undecided, and gopter draws another one.
//
// A failed case shrinks together with its schedule: a smaller case counts if any of its schedules
// fails the same property. Holds first tries the schedule that failed last, then all schedules for
// at most 64 executions, then random ones, and then all again for at most 1,000 executions.
//
// A case in which a Sometimes of the specification never holds is undecided too. An error that is
// not a failure of the specification, such as sim.ErrUnsteady, is an error of the property. Holds
// never touches a testing.TB.
func Holds[C, P any](spec func(c C) sim.Spec[P], g gopter.Gen, opts ...sim.Option) gopter.Prop {
	engine.Given("simprop.Holds", spec, g)
	if gives, takes := g(gopter.MinGenParameters()).ResultType, reflect.TypeFor[C](); gives == nil || !gives.AssignableTo(takes) {
		engine.Misuse("simprop.Holds", "the generator gives %v, and the specification is for %v", gives, takes)
	}
	return func(params *gopter.GenParameters) *gopter.PropResult {
		return prop.ForAll(newHolding(spec, opts).check, g)(params)
	}
}

const (
	caseLimit    = 10_000 // executions of a case
	smallerRuns  = 64     // executions of a smaller case before random schedules, and number of random schedules
	smallerLimit = 1_000  // executions of a smaller case
)

// A holding decides whether a specification holds for one case, and then for smaller ones.
type holding[C, P any] struct {
	spec   func(C) sim.Spec[P]
	opts   []sim.Option
	failed *sim.Failure // of the smallest failed case
}

func newHolding[C, P any](spec func(C) sim.Spec[P], opts []sim.Option) *holding[C, P] {
	return &holding[C, P]{spec: spec, opts: append([]sim.Option{sim.Limit(caseLimit)}, opts...)}
}

// check is called by gopter for the case that it has drawn, and after a failure for smaller cases.
func (h *holding[C, P]) check(c C) *gopter.PropResult {
	if h.failed != nil {
		return h.checkSmaller(c)
	}
	_, err := h.try(c)
	switch {
	case err == nil:
		return gopter.NewPropResult(true, "")
	case errors.As(err, &h.failed):
		return h.failure()
	case errors.Is(err, sim.ErrIncomplete), errors.Is(err, sim.ErrVacuous):
		return &gopter.PropResult{Status: gopter.PropUndecided, Labels: []string{err.Error()}}
	}
	return &gopter.PropResult{Status: gopter.PropError, Error: err}
}

// checkSmaller looks for a schedule of a smaller case that fails the same property as before.
func (h *holding[C, P]) checkSmaller(c C) *gopter.PropResult {
	ways := []sim.Option{sim.Limit(smallerRuns), sim.AtRandom(smallerRuns, 0), sim.Limit(smallerLimit)}
	if x := h.failed.Counterexample; x != nil {
		ways = append([]sim.Option{sim.Trace(x.Trace())}, ways...)
	}
	for _, way := range ways {
		report, err := h.try(c, way)
		var failed *sim.Failure
		if errors.As(err, &failed) && same(failed.Property, h.failed.Property) {
			h.failed = failed
			return h.failure()
		}
		if report != nil && report.Complete {
			break
		}
	}
	return gopter.NewPropResult(true, "")
}

// same reports whether two properties are the same. All clients count as one, since the operations
// of one client may shrink to those of another.
func same(a, b string) bool {
	const client = `client "`
	return a == b || strings.HasPrefix(a, client) && strings.HasPrefix(b, client)
}

// try checks the specification for a case.
func (h *holding[C, P]) try(c C, more ...sim.Option) (*sim.Report, error) {
	return sim.Check(context.Background(), h.spec(c), append(h.opts[:len(h.opts):len(h.opts)], more...)...)
}

func (h *holding[C, P]) failure() *gopter.PropResult {
	said := h.failed.Error()
	if x := h.failed.Counterexample; x != nil {
		said += "\nschedule: " + x.Trace()
	}
	return gopter.NewPropResult(false, said)
}
