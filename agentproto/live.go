package agentproto

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

type (
	emissionsAt   = dataflow.KeyedStream[CallKey, emission, Host, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	effectsAt     = dataflow.KeyedStream[CallKey, Effect, Host, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	resolutionsAt = dataflow.KeyedSingleton[CallKey, *Resolution, Host, bounds.RetainedValue]
)

// Effects returns what the program asks for as a live collection: for each call what
// [Program.NextEffect] gives of it, in the same order. What is built on it before
// [Program.Start] is part of the same flow, so that a step that decides something about a
// call and what follows from it are one step of a history that is kept.
//
// [Program.NextEffect] has to be read all the same. Each call of Effects builds an
// operator of its own.
func (p *Program) Effects() effectsAt {
	return keyedstream.FilterMapWithKey(p.emitted, func(k CallKey, e emission) (Effect, bool) {
		if !e.said() {
			return Effect{}, false
		}
		return e.of(k), true
	})
}

// Resolutions returns the one outcome of each call as a live collection, to be built upon
// before [Program.Start]. See [Program.Effects].
//
// A large result is replaced after a while, as [Program.Read] says: its entry goes, and another one comes.
func (p *Program) Resolutions() resolutionsAt { return p.kept }
