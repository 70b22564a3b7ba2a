package agentproto

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// Effects are the effects of all calls; see [Program.Effects].
type Effects = dataflow.OrderedKeyedStream[CallKey, Effect, Host]

// Resolutions are the outcomes of all calls; see [Program.Resolutions].
type Resolutions = dataflow.KeyedSingleton[CallKey, *Resolution, Host, bounds.RetainedValue]

type emissionsAt = dataflow.OrderedKeyedStream[CallKey, emission, Host]

// Effects returns the effects of the program as a live collection: for each call the effects that [Program.NextEffect] returns,
// in the same order. What is built on it before [Program.Start] is part of the same flow. A step that decides something about a
// call and the steps that follow from it are then recorded together in a durable history.
//
// The effects must be read with [Program.NextEffect] all the same. Each call of Effects builds a separate operator.
func (p *Program) Effects() Effects {
	return keyedstream.FilterMapWithKey(p.emitted, func(k CallKey, e emission) (Effect, bool) {
		if !e.said() {
			return Effect{}, false
		}
		return e.of(k), true
	})
}

// Resolutions returns the one outcome of each call as a live collection, to build on before [Program.Start]. See
// [Program.Effects].
//
// A large result is replaced after a while, as [Program.Read] says: its entry is removed and another one added.
func (p *Program) Resolutions() Resolutions { return p.kept }
